//! From what a user calls a commit to its id.

use git2::{ErrorCode, Oid, Reference, Repository};

use super::engine::{git_error, shown};
use crate::method::ports::SourceError;

/// Finds the commit that `text` names: `HEAD`, a branch, a tag, a full reference name, or a full or short
/// commit id. Expressions such as `HEAD~1`, `main@{yesterday}` or `:/text` are refused: what they mean depends
/// on more than the commit, and the text may come from outside. `head` is the commit of the source's HEAD.
pub(super) fn resolve(
    repository: &Repository,
    head: Option<Oid>,
    text: &str,
    source: &str,
) -> Result<Oid, SourceError> {
    let refuse = |why: String| SourceError::Input(format!("base {:?}: {why}", shown(text)));
    if text == "HEAD" {
        return head.ok_or_else(|| no_head(repository, source));
    }
    if !Reference::is_valid_name(&format!("refs/heads/{text}")) {
        return Err(refuse(
            "not a branch, tag or commit id; expressions such as HEAD~1 are not taken".into(),
        ));
    }
    if let Some(id) = by_reference(repository, text, &refuse)? {
        return Ok(id);
    }
    if let Some(id) = by_id(repository, text, &refuse)? {
        return Ok(id);
    }
    Err(refuse(format!("{source} has no such branch, tag or commit{}", known_branches(repository))))
}

/// The error for a source whose HEAD names no commit.
pub(super) fn no_head(repository: &Repository, source: &str) -> SourceError {
    let branches = known_branches(repository);
    SourceError::Input(if branches.is_empty() {
        format!("{source} is an empty repository; commit something first")
    } else {
        format!("HEAD of {source} names no commit; name one with --base{branches}")
    })
}

fn by_reference(
    repository: &Repository,
    text: &str,
    refuse: &dyn Fn(String) -> SourceError,
) -> Result<Option<Oid>, SourceError> {
    let mut found: Option<(String, Oid)> = None;
    let names = if text.starts_with("refs/") {
        vec![text.to_owned()]
    } else {
        ["tags", "heads", "remotes"].map(|kind| format!("refs/{kind}/{text}")).to_vec()
    };
    for name in names {
        let commit = match repository.find_reference(&name).and_then(|r| r.peel(git2::ObjectType::Commit)) {
            Ok(commit) => commit.id(),
            Err(error) if error.code() == ErrorCode::NotFound => continue,
            Err(_) => return Err(refuse(format!("{name} does not lead to a commit"))),
        };
        match found {
            Some((first, id)) if id != commit => {
                return Err(refuse(format!("both {first} and {name} exist; write the one that is meant")));
            }
            _ => found = Some((name, commit)),
        }
    }
    Ok(found.map(|(_, id)| id))
}

fn by_id(
    repository: &Repository,
    text: &str,
    refuse: &dyn Fn(String) -> SourceError,
) -> Result<Option<Oid>, SourceError> {
    if !(4..=40).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(None);
    }
    match repository.find_commit_by_prefix(text) {
        Ok(commit) => Ok(Some(commit.id())),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) if error.code() == ErrorCode::Ambiguous => {
            Err(refuse("several objects begin with these digits; give more of them".into()))
        }
        Err(error) => Err(git_error("looking a commit up")(error)),
    }
}

/// Up to ten branch names, to choose from.
fn known_branches(repository: &Repository) -> String {
    let Ok(references) = repository.references_glob("refs/heads/*") else {
        return String::new();
    };
    let names = references.flatten().filter_map(|r| r.shorthand().ok().map(shown)).take(10);
    let names: Vec<_> = names.collect();
    if names.is_empty() { String::new() } else { format!(" (branches: {})", names.join(", ")) }
}
