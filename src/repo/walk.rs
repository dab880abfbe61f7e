//! All entries of a commit's tree, whatever it holds.
//!
//! A tree comes from anybody. It may name one file twice, hide a folder behind a symlink of the same name,
//! spell `.git` in ways that some file system folds together, put slashes into names, or nest the same folder
//! until it has more entries than memory. None of that may reach a disk.

use std::collections::HashSet;

use git2::{ObjectType, Odb, Oid, Repository};
use tokio_util::sync::CancellationToken;

use super::engine::{check, git_error};
use crate::{
    domain::{FileMode, RepoPath, TreePath},
    method::ports::SourceError,
};

/// Entries of one tree, folders counted.
const MAX_ENTRIES: usize = 1_000_000;
/// Bytes of all files of one tree, written out. One small object may stand in for many large files.
const MAX_BYTES: u64 = 4 << 30;
/// Folders within one another.
const MAX_DEPTH: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File(FileMode),
    /// A commit of another repository; its content is not here (S-57).
    Submodule,
}

impl Kind {
    pub(super) fn git_mode(self) -> u32 {
        match self {
            Self::File(mode) => mode.git(),
            Self::Submodule => 0o160_000,
        }
    }
}

/// An entry that is no folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub path: TreePath,
    pub kind: Kind,
    pub id: Oid,
    /// Bytes; 0 for submodules.
    pub size: u64,
    /// Whether nothing before it in the tree has its path or that of a folder above it.
    pub is_unique: bool,
}

impl Node {
    /// Whether it may be written to a file system. Submodules never are (S-57).
    pub(super) fn is_writable(&self) -> bool {
        RepoPath::check_writable(&self.path).is_ok() && self.is_unique && self.kind != Kind::Submodule
    }
}

enum Entry {
    Folder { path: TreePath, id: Oid, is_unique: bool },
    Node(Node),
}

/// Lists a tree in its own order.
pub(super) fn walk(
    repository: &Repository,
    root: Oid,
    token: &CancellationToken,
) -> Result<Vec<Node>, SourceError> {
    let odb = repository.odb().map_err(git_error("reading the tree"))?;
    let mut nodes = Vec::new();
    let (mut count, mut bytes) = (0, 0u64);
    // Folders that are open, innermost last, each as its entries in reverse.
    let mut open = vec![list(repository, &odb, root, b"", true)?];
    while let Some(entries) = open.last_mut() {
        let Some(entry) = entries.pop() else {
            open.pop();
            continue;
        };
        count += 1;
        if count > MAX_ENTRIES || open.len() > MAX_DEPTH {
            return Err(SourceError::Limit(format!(
                "the tree has more than {MAX_ENTRIES} entries or is nested more than {MAX_DEPTH} deep"
            )));
        }
        match entry {
            Entry::Folder { path, id, is_unique } => {
                check(token)?;
                open.push(list(repository, &odb, id, &path, is_unique)?);
            }
            Entry::Node(node) => {
                bytes = bytes.saturating_add(node.size);
                if bytes > MAX_BYTES {
                    let limit = MAX_BYTES >> 30;
                    return Err(SourceError::Limit(format!(
                        "the files of the tree have more than {limit} GiB, which is too much to work on"
                    )));
                }
                nodes.push(node);
            }
        }
    }
    Ok(nodes)
}

/// The entries of one folder, last first.
fn list(
    repository: &Repository,
    odb: &Odb<'_>,
    id: Oid,
    folder: &[u8],
    folder_is_unique: bool,
) -> Result<Vec<Entry>, SourceError> {
    let reading = git_error("reading the tree");
    let tree = repository.find_tree(id).map_err(&reading)?;
    let mut names = HashSet::new();
    let mut entries = Vec::with_capacity(tree.len());
    for entry in tree.iter() {
        let name = entry.name_bytes();
        let path = if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() };
        // A name with a slash may be the path of another entry, or lead through one.
        let is_unique = folder_is_unique && !name.contains(&b'/') && names.insert(name.to_vec());
        let id = entry.id();
        entries.push(match entry.kind() {
            Some(ObjectType::Tree) => Entry::Folder { path, id, is_unique },
            Some(ObjectType::Commit) => {
                Entry::Node(Node { path, kind: Kind::Submodule, id, size: 0, is_unique })
            }
            _ => {
                let kind = Kind::File(mode_of(entry.filemode()));
                let size = odb.read_header(id).map_err(&reading)?.0 as u64;
                Entry::Node(Node { path, kind, id, size, is_unique })
            }
        });
    }
    entries.reverse();
    Ok(entries)
}

/// As git reads it: of the modes that old versions wrote, only the executable bit counts.
fn mode_of(mode: i32) -> FileMode {
    match mode {
        0o120_000 => FileMode::Symlink,
        0o100_755 => FileMode::Executable,
        _ => FileMode::Regular,
    }
}
