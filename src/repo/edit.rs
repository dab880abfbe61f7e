//! A new tree from an old one and changes (S-25): only folders on the way to a change are written, everything
//! else is carried over by id, whatever it is called.

use std::collections::BTreeMap;

use git2::{ObjectType, Oid, Repository, Tree};

use super::engine::{git_error, shown_bytes};
use crate::{
    domain::{LeftOut, RepoPath, TreeChanges},
    method::ports::SourceError,
};

/// What becomes of one name in a folder.
#[derive(Default)]
struct Edit {
    leaf: Option<Leaf>,
    /// Changes below, where the name is or becomes a folder.
    below: BTreeMap<String, Edit>,
}

#[derive(Clone, Copy)]
enum Leaf {
    File { id: Oid, mode: u32 },
    Removed,
}

/// A tree with changes on top.
pub(super) struct Edited {
    pub tree: Oid,
    pub left_out: Vec<LeftOut>,
}

/// Writes the tree that `changes` make of `root` into `repository`. The gate has judged the changes; names are
/// judged here once more. A removal under a name that no [`RepoPath`] can have is left out and listed, and so is
/// what changed in place of a submodule (S-23).
pub(super) fn apply(repository: &Repository, root: Oid, changes: TreeChanges) -> Result<Edited, SourceError> {
    let writing = git_error("writing the changed tree");
    let mut edits = BTreeMap::new();
    let mut left_out = Vec::new();
    for path in &changes.removed {
        match RepoPath::from_bytes(path) {
            Ok(path) => *leaf(&mut edits, &path) = Some(Leaf::Removed),
            Err(invalid) => left_out.push(LeftOut {
                path: shown_bytes(path),
                reason: format!("its removal cannot be part of a patch: {}", invalid.reason),
            }),
        }
    }
    for change in &changes.changed {
        let path = RepoPath::from_bytes(&change.path).map_err(|e| SourceError::Input(e.to_string()))?;
        let id = repository.blob(&change.content).map_err(&writing)?;
        *leaf(&mut edits, &path) = Some(Leaf::File { id, mode: change.mode.git() });
    }
    let base = repository.find_tree(root).map_err(&writing)?;
    let tree = match folder(repository, Some(&base), &edits, "", &mut left_out)? {
        Some(tree) => tree,
        None => repository.treebuilder(None).and_then(|empty| empty.write()).map_err(writing)?,
    };
    Ok(Edited { tree, left_out })
}

fn leaf<'a>(mut edits: &'a mut BTreeMap<String, Edit>, path: &RepoPath) -> &'a mut Option<Leaf> {
    let (folders, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        edits = &mut edits.entry(part.to_owned()).or_default().below;
    }
    &mut edits.entry(name.to_owned()).or_default().leaf
}

/// Writes one folder; `None` when nothing is left in it, since git keeps no empty folders.
fn folder(
    repository: &Repository,
    base: Option<&Tree<'_>>,
    edits: &BTreeMap<String, Edit>,
    path: &str,
    left_out: &mut Vec<LeftOut>,
) -> Result<Option<Oid>, SourceError> {
    let writing = git_error("writing the changed tree");
    let mut builder = repository.treebuilder(base).map_err(&writing)?;
    if base.is_some_and(|base| base.len() != builder.len() || !is_in_order(base)) {
        return Err(SourceError::Input(format!(
            "the folder {path:?} is malformed: it names one file twice or is not in git's order; it cannot be changed"
        )));
    }
    for (name, edit) in edits {
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        let present = builder.get(name).map_err(&writing)?.map(|entry| (entry.kind(), entry.id()));
        match becomes(repository, present, edit, &path, left_out)? {
            Outcome::Stays => {}
            Outcome::Goes => builder.remove(name).map_err(&writing)?,
            Outcome::Is(id, mode) => {
                builder.insert(name, id, mode.cast_signed()).map_err(&writing)?;
            }
        }
    }
    if builder.is_empty() { Ok(None) } else { builder.write().map(Some).map_err(writing) }
}

/// Whether a folder is sorted as git sorts: by bytes, as if the names of folders ended with a slash. Rewriting
/// any other would make a patch of what nobody changed.
fn is_in_order(tree: &Tree<'_>) -> bool {
    let key = |entry: git2::TreeEntry<'_>| {
        let slash: &[u8] = if entry.kind() == Some(ObjectType::Tree) { b"/" } else { b"" };
        [entry.name_bytes(), slash].concat()
    };
    tree.iter().map(key).is_sorted()
}

/// What becomes of one entry of a folder.
enum Outcome {
    Stays,
    Goes,
    Is(Oid, u32),
}

fn becomes(
    repository: &Repository,
    present: Option<(Option<ObjectType>, Oid)>,
    edit: &Edit,
    path: &str,
    left_out: &mut Vec<LeftOut>,
) -> Result<Outcome, SourceError> {
    let writing = git_error("writing the changed tree");
    if matches!(present, Some((Some(ObjectType::Commit), _))) {
        left_out.push(LeftOut { path: path.to_owned(), reason: "a submodule, which cannot change".into() });
        return Ok(Outcome::Stays);
    }
    if let Some(Leaf::File { id, mode }) = edit.leaf {
        return if edit.adds_below() {
            Err(SourceError::Input(format!("{path} cannot be a file and a folder at once")))
        } else {
            Ok(Outcome::Is(id, mode))
        };
    }
    let (is_file, tree) = match present {
        Some((Some(ObjectType::Tree), id)) => (false, Some(repository.find_tree(id).map_err(writing)?)),
        Some(_) => (true, None),
        None => (false, None),
    };
    // Removed paths are those of files: the removal of "a" does not touch a folder "a".
    let goes = is_file && edit.leaf.is_some();
    if edit.below.is_empty() {
        return Ok(if goes { Outcome::Goes } else { Outcome::Stays });
    }
    Ok(match folder(repository, tree.as_ref(), &edit.below, path, left_out)? {
        Some(id) => Outcome::Is(id, 0o040_000),
        None if goes || tree.is_some() => Outcome::Goes,
        None => Outcome::Stays,
    })
}

impl Edit {
    fn adds_below(&self) -> bool {
        self.below.values().any(|edit| matches!(edit.leaf, Some(Leaf::File { .. })) || edit.adds_below())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        domain::{Change, FileMode},
        repo::{engine::init, walk},
    };

    type Files = BTreeMap<String, String>;

    /// Short paths of few names, so that files and folders often want the same place.
    fn path() -> impl Strategy<Value = String> {
        proptest::collection::vec("[ab]", 1..4).prop_map(|parts| parts.join("/"))
    }

    /// Files that can be in one tree: none lies below another.
    fn files() -> impl Strategy<Value = Files> {
        proptest::collection::btree_map(path(), "[xyz]", 0..6).prop_map(|mut files| {
            let paths: Vec<_> = files.keys().cloned().collect();
            files.retain(|path, _| !paths.iter().any(|other| path.starts_with(&format!("{other}/"))));
            files
        })
    }

    fn changes(before: &Files, after: &Files) -> TreeChanges {
        let new = after.iter().filter(|(path, content)| before.get(*path) != Some(content));
        let changed = new.map(|(path, content)| Change {
            path: path.clone().into(),
            mode: FileMode::Regular,
            content: content.clone().into(),
        });
        let removed = before.keys().filter(|path| !after.contains_key(*path));
        TreeChanges { changed: changed.collect(), removed: removed.map(|path| path.clone().into()).collect() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn s_25_from_any_tree_to_any_other(before in files(), after in files()) {
            init();
            let dir = tempfile::tempdir().unwrap();
            let repository = Repository::init_bare(dir.path()).unwrap();
            let empty = repository.treebuilder(None).unwrap().write().unwrap();
            let base = apply(&repository, empty, changes(&Files::new(), &before)).unwrap().tree;
            let edited = apply(&repository, base, changes(&before, &after)).unwrap();
            prop_assert!(edited.left_out.is_empty());
            let nodes = walk::walk(&repository, edited.tree, &CancellationToken::new()).unwrap();
            let found: Files = nodes.into_iter().map(|node| {
                let content = repository.find_blob(node.id).unwrap().content().to_vec();
                (String::from_utf8(node.path).unwrap(), String::from_utf8(content).unwrap())
            }).collect();
            prop_assert_eq!(&found, &after);
            let direct = apply(&repository, empty, changes(&Files::new(), &after)).unwrap().tree;
            prop_assert_eq!(edited.tree, direct, "the same files are the same tree");
        }
    }
}
