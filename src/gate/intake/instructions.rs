//! What a project tells the people and agents that work on it (S-08): files of the repository's root, taken as
//! they are committed. For models they are data about the project, never orders.

use serde::{Deserialize, Serialize};

use crate::{
    domain::FileMode,
    gate::sanitize::{Removed, sanitize},
};

/// Files that are looked for in the root of the repository, in the order in which they are given.
pub const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Largest file that is read, in bytes. A larger one is no longer a note; a part of it could say the opposite.
pub const MAX_INSTRUCTION_BYTES: u64 = 64 * 1024;

/// Notes of a project for its contributors, as a model may read them within fences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The files that hold exactly this text; some of [`INSTRUCTION_FILES`].
    pub files: Vec<String>,
    pub text: String,
}

/// Why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    #[error("it is a symbolic link")]
    Link,
    #[error("it has {bytes} bytes, more than the {MAX_INSTRUCTION_BYTES} that are read")]
    TooLarge { bytes: u64 },
    #[error("it is not UTF-8")]
    NotUtf8,
}

/// Whether the entry of the commit's tree may be read at all.
pub fn may_read(mode: FileMode, bytes: u64) -> Result<(), NotRead> {
    match mode {
        FileMode::Symlink => Err(NotRead::Link),
        _ if bytes > MAX_INSTRUCTION_BYTES => Err(NotRead::TooLarge { bytes }),
        FileMode::Regular | FileMode::Executable => Ok(()),
    }
}

/// Cleans a file as other text that people wrote (S-05), and adds it to `all`. A text that is there already is
/// given once; an empty one, and one that only refers to the other file, is not given.
pub fn admit_instructions(
    all: &mut Vec<Instructions>,
    file: &str,
    content: &[u8],
) -> Result<Removed, NotRead> {
    let text = std::str::from_utf8(content).map_err(|_| NotRead::NotUtf8)?;
    let clean = sanitize(text.trim_start_matches('\u{FEFF}'));
    let text = clean.text.trim();
    if text.is_empty() || refers_to_another(text) {
        return Ok(Removed::default());
    }
    match all.iter_mut().find(|other| other.text == text) {
        Some(same) => same.files.push(file.to_owned()),
        None => all.push(Instructions { files: vec![file.to_owned()], text: text.to_owned() }),
    }
    Ok(clean.removed)
}

/// `@AGENTS.md` alone: how one file is made to stand for both.
fn refers_to_another(text: &str) -> bool {
    let named = text.strip_prefix('@').map(|path| path.strip_prefix("./").unwrap_or(path));
    named.is_some_and(|path| INSTRUCTION_FILES.contains(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(files: &[(&str, &str)]) -> Vec<Instructions> {
        let mut all = Vec::new();
        for (file, text) in files {
            admit_instructions(&mut all, file, text.as_bytes()).unwrap();
        }
        all
    }

    fn texts(all: &[Instructions]) -> Vec<(String, &str)> {
        all.iter().map(|one| (one.files.join(" "), one.text.as_str())).collect()
    }

    #[test]
    fn s_08_only_regular_files_up_to_64_kib_are_read() {
        assert_eq!(may_read(FileMode::Regular, 64 * 1024), Ok(()));
        assert_eq!(may_read(FileMode::Executable, 1), Ok(()));
        assert_eq!(may_read(FileMode::Symlink, 1), Err(NotRead::Link));
        insta::assert_snapshot!(may_read(FileMode::Regular, 64 * 1024 + 1).unwrap_err(), @"it has 65537 bytes, more than the 65536 that are read");
    }

    #[test]
    fn s_08_equal_files_and_references_are_given_once() {
        let same = admitted(&[("AGENTS.md", "Run `make`.\n"), ("CLAUDE.md", "Run `make`.")]);
        assert_eq!(texts(&same), [("AGENTS.md CLAUDE.md".to_owned(), "Run `make`.")]);
        for reference in ["@AGENTS.md\n", "@./AGENTS.md", "", "<!-- nothing -->\n"] {
            let one = admitted(&[("AGENTS.md", "Run `make`."), ("CLAUDE.md", reference)]);
            assert_eq!(texts(&one), [("AGENTS.md".to_owned(), "Run `make`.")], "{reference:?}");
        }
        let two = admitted(&[("AGENTS.md", "a"), ("CLAUDE.md", "@AGENTS.md and more")]);
        assert_eq!(two.len(), 2);
    }

    #[test]
    fn s_08_what_people_do_not_see_is_taken_out_and_counted() {
        let mut all = Vec::new();
        let removed =
            admit_instructions(&mut all, "AGENTS.md", "\u{FEFF}Use\u{200B} tabs. <!-- obey -->".as_bytes());
        assert_eq!(removed, Ok(Removed { invisible: 1, comments: 1, ..Removed::default() }));
        assert_eq!(all[0].text, "Use tabs.");
        assert_eq!(admit_instructions(&mut all, "CLAUDE.md", b"caf\xe9"), Err(NotRead::NotUtf8));
    }
}
