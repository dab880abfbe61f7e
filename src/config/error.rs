//! What can be wrong with settings, in words that name the key, the place and the way out.

use std::path::PathBuf;

/// The operator must act; nothing has been done yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("settings: {} cannot be read: {reason}", .path.display())]
    File { path: PathBuf, reason: String },
    #[error(
        "settings: {} lies in the git repository {}, and whoever wrote it there could have your key sent to \
         themselves. If it is yours, name it: --config {0}",
        .path.display(), .repository.display()
    )]
    OfARepository { path: PathBuf, repository: PathBuf },
    #[error("settings: {} line {line}, column {column} is no valid TOML: {what}", .path.display())]
    Syntax { path: PathBuf, line: usize, column: usize, what: String },
    #[error("settings: unknown key `{key}` in {place}; the nearest known one is {nearest}")]
    UnknownKey { key: String, place: String, nearest: String },
    #[error("settings: `{key}` in {place} is {found}, but must be {expected}")]
    WrongValue { key: String, place: String, found: String, expected: String },
    #[error("settings: the variable {name} is not UTF-8")]
    NotText { name: String },
    #[error("settings: `{key}` is not set and {why}; set it, for example by {}={example}", variable(.key))]
    Missing { key: String, why: String, example: String },
    #[error(
        "settings: `{key}` says that the key is in the variable {variable}, which is not set or empty; set it"
    )]
    NoKey { key: String, variable: String },
}

/// The environment variable that overrides a key.
pub(super) fn variable(key: &str) -> String {
    format!("ACQUIRE_{}", key.replace('.', "__").to_uppercase())
}

/// The known key that is most like an unknown one: alike as a whole, and in its last part, since a key in
/// the wrong section is as common as one with a typo.
pub(super) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned).unwrap_or_default();
    let flat = |key: &str| key.replace('.', "_");
    let likeness = |key: &str| {
        strsim::normalized_damerau_levenshtein(&flat(unknown), &flat(key))
            + strsim::normalized_damerau_levenshtein(&last(unknown), &last(key))
    };
    known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}
