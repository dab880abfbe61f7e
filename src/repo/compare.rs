//! What a patch changes, as changes that a sandbox can be filled with.

use git2::{Delta, Oid, Repository};

use super::{
    engine::{blocking, git_error},
    tree::CommitTree,
};
use crate::{
    domain::{Change, FileMode, Patch, TreeChanges},
    method::ports::SourceError,
};

impl CommitTree {
    /// The changes that lead from this tree to the patch's.
    pub async fn changes_of(&self, patch: &Patch) -> Result<TreeChanges, SourceError> {
        let (store, root, tree) = (self.store.clone(), self.root, patch.tree.clone());
        blocking(move |_| {
            let comparing = git_error("comparing the patched tree");
            let tree = Oid::from_str(&tree).map_err(&comparing)?;
            changes(&store.repository()?, root, tree).map_err(comparing)
        })
        .await
    }
}

fn changes(repository: &Repository, from: Oid, to: Oid) -> Result<TreeChanges, git2::Error> {
    let (from, to) = (repository.find_tree(from)?, repository.find_tree(to)?);
    let diff = repository.diff_tree_to_tree(Some(&from), Some(&to), None)?;
    let mut all = TreeChanges::default();
    for delta in diff.deltas() {
        let new = delta.new_file();
        let path = |file: git2::DiffFile<'_>| file.path_bytes().unwrap_or_default().to_vec();
        match (delta.status(), FileMode::from_git(new.mode().into())) {
            (Delta::Deleted, _) => all.removed.push(path(delta.old_file())),
            (_, Some(mode)) => {
                let content = repository.find_blob(new.id())?.content().to_vec();
                all.changed.push(Change { path: path(new), mode, content });
            }
            // Submodules cannot change (S-23).
            (_, None) => {}
        }
    }
    Ok(all)
}
