//! The instances of a bench: a file in SWE-bench's fields.
//!
//! Such files also hold the answers (`patch`, `test_patch`, `FAIL_TO_PASS`, hints). Only the five fields of
//! [`Instance`] are ever read out of a line, so nothing else can reach a run, a prompt or a log.

use std::{collections::BTreeMap, fmt, fs::File, io::Read, path::Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder::BESIDE;
use crate::{
    domain::{CommitId, RepoId},
    gate::shown,
    store::open_regular,
};

/// Largest file that is read, in bytes; SWE-bench itself has about 10 MB.
const MAX_BYTES: u64 = 256 << 20;
/// Longest instance id, in bytes: it names files.
const MAX_ID: usize = 120;

/// Why the file cannot be used: what, where, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    #[error("{path}: cannot be read: {reason}")]
    Unreadable { path: String, reason: String },
    /// `place` is a line, or the number of an instance in an array.
    #[error("{path}: {place}: {reason}")]
    Broken { path: String, place: String, reason: String },
    #[error("{path}: it holds no instance; give one JSON object a line, or an array of them")]
    Empty { path: String },
    #[error("--only names {id}, which {path} does not have")]
    Unknown { path: String, id: String },
}

/// The name of an instance, safe as a part of a file's name: letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct InstanceId(String);

impl InstanceId {
    /// The reason says what an id must be; the text is left to the caller to show.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > MAX_ID {
            return Err("it must have 1 to 120 characters");
        }
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
            return Err("it may have letters, digits, '.', '_' and '-' only");
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || text.ends_with('.') {
            return Err("it must begin with a letter or digit, and not end with '.'");
        }
        // Beside the folder of a run lie files that are named after it, and after those of other runs.
        let mut endings = BESIDE.iter().flat_map(|name| name.split('.')).chain(["jsonl"]);
        let last = text.rsplit_once('.').map(|(_, last)| last);
        if last.is_some_and(|last| endings.any(|ending| ending.eq_ignore_ascii_case(last))) {
            return Err("it must not end like a file of results (.json, .log, .score, .judge, …)");
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One issue at one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instance {
    pub id: InstanceId,
    pub repo: RepoName,
    pub base_commit: CommitId,
    /// The issue; its first line is the title.
    pub problem_statement: String,
    /// Letters, digits, `.`, `_` and `-`.
    pub version: Option<String>,
}

/// `owner/name`, both as GitHub allows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepoName {
    pub owner: String,
    pub name: String,
}

impl RepoName {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let wrong = "`repo` must be owner/name, of letters, digits, '-', '_' and '.'";
        let (owner, name) = text.split_once('/').ok_or(wrong)?;
        // What GitHub's own addresses may hold is known there.
        let id = RepoId::from_url(&format!("https://github.com/{text}")).map_err(|_| wrong)?;
        let whole = id.owner == owner && id.name == name && !name.contains('/');
        if whole { Ok(Self { owner: owner.to_owned(), name: name.to_owned() }) } else { Err(wrong) }
    }
}

/// A line as it is read; every other field is dropped unread.
#[derive(Deserialize)]
struct Row {
    instance_id: String,
    repo: String,
    base_commit: String,
    problem_statement: String,
    #[serde(default)]
    version: Option<String>,
}

impl Row {
    fn valid(self) -> Result<Instance, String> {
        let told = |field: &str, text: &str, reason: &str| {
            format!("{field} {:?}: {reason}", shown::path(text.as_bytes()))
        };
        let id = InstanceId::parse(&self.instance_id);
        let id = id.map_err(|why| told("instance_id", &self.instance_id, why))?;
        let repo = RepoName::parse(&self.repo).map_err(|why| told("repo", &self.repo, why))?;
        let base_commit = CommitId::parse(&self.base_commit).map_err(|e| e.to_string())?;
        let version = self.version.filter(|version| !version.is_empty());
        if let Some(version) = &version
            && !is_version(version)
        {
            return Err(told("version", version, "it may have letters, digits, '.', '_' and '-' only"));
        }
        if self.problem_statement.trim().is_empty() {
            return Err(format!("{id}: `problem_statement` is empty"));
        }
        Ok(Instance { id, repo, base_commit, problem_statement: self.problem_statement, version })
    }
}

fn is_version(text: &str) -> bool {
    text.len() <= 64
        && !matches!(text, "." | "..")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Reads the file: one JSON object a line, or an array of them.
pub fn read(path: &Path) -> Result<Vec<Instance>, DataError> {
    let shown_path = shown::path(path.as_os_str().as_encoded_bytes());
    let unreadable = |reason: String| DataError::Unreadable { path: shown_path.clone(), reason };
    let failed = |error: std::io::Error| unreadable(error.to_string());
    let too_large = || unreadable(format!("it is larger than {}", shown::size(MAX_BYTES)));
    let file = open_regular(path, File::options().read(true)).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_BYTES {
        return Err(too_large());
    }
    // Files grow.
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(too_large());
    }
    parse(&shown_path, &text)
}

fn parse(path: &str, text: &str) -> Result<Vec<Instance>, DataError> {
    let text = text.trim_start_matches('\u{FEFF}');
    let broken = |place: String, reason: String| DataError::Broken { path: path.to_owned(), place, reason };
    let mut rows: Vec<(String, Row)> = Vec::new();
    if text.trim_start().starts_with('[') {
        let all: Vec<Row> = serde_json::from_str(text).map_err(|e| broken("the array".into(), said(&e)))?;
        rows.extend((1..).zip(all).map(|(number, row)| (format!("instance {number}"), row)));
    } else {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("line {number}");
            let row = serde_json::from_str(line).map_err(|e| broken(place.clone(), said(&e)))?;
            rows.push((place, row));
        }
    }
    // Some file systems do not tell upper and lower case apart.
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut instances = Vec::new();
    for (place, row) in rows {
        let instance = row.valid().map_err(|reason| broken(place.clone(), reason))?;
        let folded = instance.id.as_str().to_ascii_lowercase();
        if let Some(first) = places.insert(folded, place.clone()) {
            return Err(broken(place, format!("{} stands in {first} already", instance.id)));
        }
        instances.push(instance);
    }
    if instances.is_empty() { Err(DataError::Empty { path: path.to_owned() }) } else { Ok(instances) }
}

/// What a parser says, with the place but none of the text: a line may hold an answer.
fn said(error: &serde_json::Error) -> String {
    let place = match (error.line(), error.column()) {
        (1 | 0, column) => format!("column {column}"),
        (line, column) => format!("line {line}, column {column}"),
    };
    if error.is_data() {
        let fields = "`instance_id`, `repo`, `base_commit`, `problem_statement` and, optional, `version`";
        return format!("no instance ({place}): the texts {fields} are needed");
    }
    format!("no JSON ({place})")
}

/// Those that `only` names, in the file's order; all of them where it names none.
pub fn select(path: &Path, all: Vec<Instance>, only: &[String]) -> Result<Vec<Instance>, DataError> {
    for id in only {
        if !all.iter().any(|instance| instance.id.as_str() == id) {
            let path = shown::path(path.as_os_str().as_encoded_bytes());
            return Err(DataError::Unknown { path, id: shown::path(id.as_bytes()) });
        }
    }
    let wanted = |one: &Instance| only.is_empty() || only.iter().any(|id| id == one.id.as_str());
    Ok(all.into_iter().filter(wanted).collect())
}

/// Names what instances ask, whatever order they come in and whatever else their file holds.
pub fn digest(instances: &[Instance]) -> String {
    let mut sorted: Vec<&Instance> = instances.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let text = serde_json::to_vec(&sorted).expect("texts can be written as JSON");
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub fn row(id: &str) -> Value {
        json!({
            "instance_id": id, "repo": "octo/store", "base_commit": "a".repeat(40), "version": "1.2",
            "problem_statement": "It fails\n\nbadly", "patch": "THE-ANSWER", "FAIL_TO_PASS": ["THE-ANSWER"],
        })
    }

    fn with(field: &str, value: Value) -> String {
        let mut row = row("o__s-1");
        row[field] = value;
        row.to_string()
    }

    fn told(text: &str) -> String {
        let error = parse("data.jsonl", text).unwrap_err().to_string();
        assert!(!error.contains("THE-ANSWER"), "{error}");
        error
    }

    #[test]
    fn lines_and_arrays_are_read_and_no_answer_with_them() {
        let lines = format!("\u{FEFF}{}\n\n{}\n", row("a__b-1"), row("a__b-2"));
        let of_lines = parse("d", &lines).unwrap();
        assert_eq!(of_lines.iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), ["a__b-1", "a__b-2"]);
        let array = json!([row("a__b-2"), row("a__b-1")]).to_string();
        let of_array = parse("d", &array).unwrap();
        assert_eq!(digest(&of_lines), digest(&of_array), "order and form do not count");
        assert!(!format!("{of_lines:?}").contains("THE-ANSWER"));
        let mut other = of_lines.clone();
        other[0].problem_statement.push('!');
        assert_ne!(digest(&of_lines), digest(&other));
    }

    #[test]
    fn broken_lines_are_named_by_number_and_not_repeated() {
        let good = row("a-1").to_string();
        insta::assert_snapshot!(told(&format!("{good}\n{{\"patch\": \"THE-ANSWER\n")), @"data.jsonl: line 2: no JSON (column 21)");
        insta::assert_snapshot!(told(&format!("{good}\n\n{{\"patch\": \"THE-ANSWER\"}}")), @"data.jsonl: line 3: no instance (column 23): the texts `instance_id`, `repo`, `base_commit`, `problem_statement` and, optional, `version` are needed");
        insta::assert_snapshot!(told(&format!("{good}\n{good}")), @"data.jsonl: line 2: a-1 stands in line 1 already");
        insta::assert_snapshot!(told(&format!("{good}\n{}", good.replace("a-1", "A-1"))), @"data.jsonl: line 2: A-1 stands in line 1 already");
        insta::assert_snapshot!(told(" \n\n"), @"data.jsonl: it holds no instance; give one JSON object a line, or an array of them");
        insta::assert_snapshot!(told("[]"), @"data.jsonl: it holds no instance; give one JSON object a line, or an array of them");
        insta::assert_snapshot!(told("\"THE-ANSWER\""), @"data.jsonl: line 1: no instance (column 12): the texts `instance_id`, `repo`, `base_commit`, `problem_statement` and, optional, `version` are needed");
    }

    #[test]
    fn s_06_ids_repositories_and_versions_that_could_leave_their_place_are_refused() {
        for id in ["", "..", ".a", "-a", "a/b", "../a", "a\\b", "a b", "a\n", "ä", "a."] {
            assert!(parse("d", &with("instance_id", id.into())).is_err(), "{id:?} was taken");
        }
        assert!(parse("d", &with("instance_id", "a".repeat(121).into())).is_err());
        for repo in ["", "a", "a/b/c", "../x", "a/..", "a/b?x", "a b/c", "a/b#c", "a/b.git", "/a/b", "a/b/"] {
            assert!(parse("d", &with("repo", repo.into())).is_err(), "{repo:?} was taken");
        }
        for version in ["1/2", "a b", "1:2", "@sha", "{repo}"] {
            assert!(parse("d", &with("version", version.into())).is_err(), "{version:?} was taken");
        }
        for commit in ["main", "", "HEAD^{commit}", "AAAA"] {
            assert!(parse("d", &with("base_commit", commit.into())).is_err(), "{commit:?} was taken");
        }
        assert!(parse("d", &with("version", Value::Null)).unwrap()[0].version.is_none());
        insta::assert_snapshot!(told(&with("instance_id", "a/../\u{1b}[2J".into())), @r#"data.jsonl: line 1: instance_id "a/../\\u{1b}[2J": it may have letters, digits, '.', '_' and '-' only"#);
    }

    #[test]
    fn s_06_no_id_can_name_what_another_run_leaves() {
        let mut refused: Vec<String> = ["x.LOG", "x.Score", "predictions.jsonl"].map(str::to_owned).into();
        for name in BESIDE {
            // `x` leaves `x.score.log`; so would a run `x.score`, for its own log.
            refused.extend(name.match_indices('.').map(|(at, _)| format!("x.{}", &name[..at])));
            refused.push(format!("x.{name}"));
        }
        for id in refused {
            assert!(InstanceId::parse(&id).is_err(), "{id:?} was taken");
        }
        for id in ["score", "x-score", "x.score.1", "django__django-1.2"] {
            assert!(InstanceId::parse(id).is_ok(), "{id:?} was refused");
        }
    }

    #[test]
    fn s_07_only_a_file_of_a_bounded_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let told = read(path).unwrap_err().to_string();
            assert!(told.ends_with("cannot be read: it is not a regular file"), "{told}");
        }
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let told = read(&large).unwrap_err().to_string();
        assert!(told.ends_with("it is larger than 268.4 MB"), "{told}");
    }

    #[test]
    fn only_names_instances_that_are_there() {
        let all = parse("d", &format!("{}\n{}", row("a-1"), row("a-2"))).unwrap();
        let path = Path::new("d");
        assert_eq!(select(path, all.clone(), &[]).unwrap().len(), 2);
        assert_eq!(select(path, all.clone(), &["a-2".into()]).unwrap()[0].id.as_str(), "a-2");
        assert_eq!(
            select(path, all, &["a".into()]).unwrap_err().to_string(),
            "--only names a, which d does not have"
        );
    }
}
