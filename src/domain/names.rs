//! Names and identifiers.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// A name from outside that is not one of ours. Says which kind, the text (shortened) and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind}: {text:?}: {reason}")]
pub struct InvalidName {
    pub kind: &'static str,
    pub text: String,
    pub reason: &'static str,
}

impl InvalidName {
    fn new(kind: &'static str, text: &str, reason: &'static str) -> Self {
        Self { kind, text: text.chars().take(200).collect(), reason }
    }
}

/// A repository on a GitHub: `owner/name` on a web host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RepoId {
    /// Web base URL without a slash at its end, such as `https://github.com`.
    pub web: String,
    pub owner: String,
    pub name: String,
}

impl RepoId {
    /// Takes the parts apart of `https://github.com/owner/name`, with or without `.git` and a slash at its end.
    pub fn from_url(text: &str) -> Result<Self, InvalidName> {
        let bad = |reason| InvalidName::new("repository URL", text, reason);
        let url = url::Url::parse(text).map_err(|_| bad("not a URL"))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(bad("the scheme must be https"));
        }
        let host = url.host_str().ok_or_else(|| bad("it has no host"))?;
        let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
        let path = url.path().trim_matches('/');
        let mut parts = path.split('/');
        let (Some(owner), Some(name)) = (parts.next(), parts.next()) else {
            return Err(bad("the path must be owner/name"));
        };
        let name = name.strip_suffix(".git").unwrap_or(name);
        let fine = |s: &str| {
            !s.is_empty()
                && s.len() <= 100
                && s != "."
                && s != ".."
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if !fine(owner) || !fine(name) {
            return Err(bad("owner and name are letters, digits, '-', '_' and '.'"));
        }
        Ok(Self {
            web: format!("{}://{host}{port}", url.scheme()),
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    /// `owner/name`.
    pub fn slug(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.web, self.owner, self.name)
    }
}

/// Number of an issue or pull request in its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IssueNumber(pub u64);

impl fmt::Display for IssueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Full hexadecimal object id of a commit (SHA-1 or SHA-256), lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

impl CommitId {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if !matches!(text.len(), 40 | 64) {
            return Err(InvalidName::new("commit id", text, "it must have 40 or 64 digits"));
        }
        if !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(InvalidName::new("commit id", text, "it must be lower-case hexadecimal"));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 12 digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for CommitId {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::parse(&text)
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> String {
        id.0
    }
}

/// A path inside a repository that is safe to write into a git tree and to show: requirement S-22.
///
/// Relative, UTF-8, no empty, `.` or `..` part, no backslash or control character, and no part that some
/// file system folds to `.git`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoPath(String);

impl RepoPath {
    /// Longest path that is taken, in bytes (git and Linux stop at 4,096).
    pub const MAX_BYTES: usize = 4_000;
    /// Deepest nesting that is taken.
    pub const MAX_DEPTH: usize = 100;

    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let bad = |reason| Err(InvalidName::new("path", text, reason));
        if text.is_empty() {
            return bad("it is empty");
        }
        if text.len() > Self::MAX_BYTES {
            return bad("it is longer than 4,000 bytes");
        }
        if text.starts_with('/') {
            return bad("it must be relative");
        }
        if text.contains('\\') {
            return bad("it has a backslash");
        }
        if text.chars().any(char::is_control) {
            return bad("it has a control character");
        }
        if text.split('/').count() > Self::MAX_DEPTH {
            return bad("it is nested more than 100 deep");
        }
        for part in text.split('/') {
            match part {
                "" => return bad("it has an empty part"),
                "." | ".." => return bad("it has a '.' or '..' part"),
                _ if folds_to_dot_git(part) => return bad("a part of it is '.git' on some file system"),
                _ => {}
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// As [`RepoPath::parse`], for bytes as git and Linux have them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidName> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(_) => Err(InvalidName::new("path", &String::from_utf8_lossy(bytes), "it is not UTF-8")),
        }
    }

    /// Whether bytes may name a file that is written out: all rules of S-22 but the one that names be UTF-8,
    /// which Linux does not mind and repositories break.
    pub fn check_writable(bytes: &[u8]) -> Result<(), InvalidName> {
        Self::parse(&String::from_utf8_lossy(bytes)).map(drop)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key under which two paths collide on a file system that ignores case and normalises Unicode.
    pub fn folded(&self) -> String {
        self.0.nfc().collect::<String>().to_lowercase()
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RepoPath {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::parse(&text)
    }
}

impl From<RepoPath> for String {
    fn from(path: RepoPath) -> String {
        path.0
    }
}

/// Whether HFS+, NTFS or a case-folding file system would take this name for `.git`.
fn folds_to_dot_git(part: &str) -> bool {
    // NTFS: an alternate data stream is the same file; dots and spaces at the end are dropped.
    let name = part.split(':').next().unwrap_or(part);
    // HFS+ ignores these code points in names.
    let ignorable = |c: &char| matches!(c, '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    let name: String = name.chars().filter(|c| !ignorable(c)).collect();
    let name = name.nfkc().collect::<String>().to_lowercase();
    let name = name.trim_end_matches(['.', ' ']);
    // NTFS short names: `.git` becomes `git~1`, or a higher number when others took it before.
    let short =
        name.strip_prefix("git~").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    name == ".git" || short
}

/// Identifier of a run: UTC time of its start and six random hexadecimal digits, such as `20261130-153344-a1b2c3`.
/// Sorts by time and is safe in file names, labels and container names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// `now` and `random` come from outside, so that tests are exact.
    pub fn new(now: jiff::Timestamp, random: [u8; 3]) -> Self {
        Self(format!("{}-{}", now.strftime("%Y%m%d-%H%M%S"), hex::encode(random)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        let fine = (1..=40).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fine {
            Ok(Self(text))
        } else {
            Err(InvalidName::new("run id", &text, "lower-case letters, digits and '-'"))
        }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}

/// Name of one agent of a run, such as `questioner`, `answerer-2`, `resolver`. Names its trajectory file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct AgentName(String);

impl AgentName {
    pub fn questioner() -> Self {
        Self("questioner".into())
    }

    /// `number` counts from 1.
    pub fn answerer(number: usize) -> Self {
        Self(format!("answerer-{number}"))
    }

    /// Writes a proposal instead of answering questions.
    pub fn proposal() -> Self {
        Self("proposal".into())
    }

    /// A name that an earlier process stored; `None` for one that no agent has.
    pub fn of_stored(text: &str) -> Option<Self> {
        let number = text.strip_prefix("answerer-").and_then(|n| n.parse().ok());
        match (text, number) {
            ("questioner", _) => Some(Self::questioner()),
            ("resolver", _) => Some(Self::resolver()),
            ("proposal", _) => Some(Self::proposal()),
            (_, Some(number)) => Some(Self::answerer(number)),
            _ => None,
        }
    }

    /// Looks at the environment before any model does.
    pub fn probe() -> Self {
        Self("probe".into())
    }

    /// Runs the tests before any change.
    pub fn baseline() -> Self {
        Self("baseline".into())
    }

    /// Marks the questions of a bench; no agent of a run.
    pub fn judge() -> Self {
        Self("judge".into())
    }

    pub fn resolver() -> Self {
        Self("resolver".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_22_paths_that_leave_the_tree_or_hide_a_git_folder_are_refused() {
        for bad in [
            "",
            "/abs",
            "a//b",
            "a/",
            "./a",
            "a/../b",
            "..",
            "a\\..\\b",
            "a\nb",
            "a\0b",
            "a\u{7f}b",
            "a\u{80}b",
            "a\u{85}b",
            "a\u{9f}b",
            ".git/config",
            "sub/.GIT/hooks/x",
            ".g\u{200c}it/config",
            ".git./x",
            ".git /x",
            ".git::$INDEX_ALLOCATION/x",
            "GIT~1/config",
            "git~23",
            "\u{FEFF}.git",
            "．git/config",
        ] {
            assert!(RepoPath::parse(bad).is_err(), "{bad:?} was taken");
        }
        // All that HFS+ ignores in names.
        for (first, last) in [(0x200C, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF)] {
            for ignored in (first..=last).filter_map(char::from_u32) {
                for bad in
                    [format!("{ignored}.git"), format!(".g{ignored}it/x"), format!("a/.GIT{ignored}/x")]
                {
                    assert!(RepoPath::parse(&bad).is_err(), "{bad:?} was taken");
                }
            }
        }
        assert!(RepoPath::from_bytes(b"caf\xe9.txt").is_err());
        assert!(RepoPath::check_writable(b"caf\xe9.txt").is_ok());
        assert!(RepoPath::check_writable(b"caf\xe9/../../x").is_err());
        assert!(RepoPath::parse(&"a/".repeat(200)).is_err());
        for good in [
            "a",
            "src/main.rs",
            ".gitignore",
            ".github/x",
            "git",
            "git~",
            "ünï/テスト.py",
            "a b/c",
            "..a",
            "digit~1",
        ] {
            assert!(RepoPath::parse(good).is_ok(), "{good:?} was refused");
        }
    }

    #[test]
    fn repository_urls_are_taken_apart() {
        let repo = RepoId::from_url("https://github.com/rust-lang/bors.git/").unwrap();
        assert_eq!((repo.slug().as_str(), repo.web.as_str()), ("rust-lang/bors", "https://github.com"));
        for bad in [
            "rust-lang/bors",
            "ssh://git@github.com/a/b",
            "https://github.com/a",
            "https://github.com/a/..",
            "https://github.com/a/b%20c",
        ] {
            assert!(RepoId::from_url(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn run_ids_sort_by_time() {
        let early = RunId::new("2026-11-30T09:00:00Z".parse().unwrap(), [255; 3]);
        let late = RunId::new("2026-11-30T10:00:00Z".parse().unwrap(), [0; 3]);
        assert!(early < late);
        assert_eq!(early.as_str(), "20261130-090000-ffffff");
    }
}
