//! The difference that changes make, as `git apply` takes it (S-25).

use git2::{Diff, DiffFindOptions, DiffOptions, Oid, Repository};

use super::{edit, engine::git_error};
use crate::{
    domain::{Patch, PatchSummary, RepoPath, TreeChanges},
    method::ports::SourceError,
};

/// Applies `changes` to the tree `root` and compares the two trees. Renames are shown as such.
pub(super) fn build(repository: &Repository, root: Oid, changes: TreeChanges) -> Result<Patch, SourceError> {
    let comparing = git_error("comparing the changed tree");
    let edited = edit::apply(repository, root, changes)?;
    let base = repository.find_tree(root).map_err(&comparing)?;
    let tree = repository.find_tree(edited.tree).map_err(&comparing)?;
    // Full ids and binary content, so that the patch applies without the objects.
    let mut options = DiffOptions::new();
    options.show_binary(true).id_abbrev(40);
    let mut diff =
        repository.diff_tree_to_tree(Some(&base), Some(&tree), Some(&mut options)).map_err(&comparing)?;
    diff.find_similar(Some(DiffFindOptions::new().renames(true))).map_err(&comparing)?;
    let mut summary = PatchSummary { left_out: edited.left_out, ..PatchSummary::default() };
    let text = print(&diff, &mut summary).map_err(comparing)?;
    Ok(Patch { diff: text, tree: edited.tree.to_string(), summary })
}

fn print(diff: &Diff<'_>, summary: &mut PatchSummary) -> Result<Vec<u8>, git2::Error> {
    let mut text = Vec::new();
    for (index, delta) in diff.deltas().enumerate() {
        // Both ends of a rename are files that the patch touches.
        for file in [delta.old_file(), delta.new_file()] {
            let path = file.path_bytes().and_then(|path| RepoPath::from_bytes(path).ok());
            summary.files.extend(path.filter(|path| !summary.files.contains(path)));
        }
        if let Some(mut patch) = git2::Patch::from_diff(diff, index)? {
            let (_, insertions, deletions) = patch.line_stats()?;
            summary.insertions += insertions;
            summary.deletions += deletions;
            text.extend_from_slice(&patch.to_buf()?);
        }
    }
    Ok(text)
}
