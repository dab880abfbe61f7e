//! The `.git` folder of an agent's repository, made from nothing.
//!
//! It has one branch `main` at the base commit, an index of the base tree, and objects by way of `alternates`:
//! no other reference, no reflog, no hook, no remote. Whatever an agent does to it dies with the sandbox.

use std::path::Path;

use git2::{Index, IndexEntry, IndexTime, Oid};

use super::{
    engine::{git_error, io_error},
    store::shallow_text,
    walk::Node,
};
use crate::{
    domain::{Change, FileMode},
    method::ports::SourceError,
};

/// Files are compared by content and mode, and git never starts anything on its own.
const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tbare = false
\tfilemode = true
\tsymlinks = true
\tautocrlf = false
\tlogallrefupdates = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[user]
\tname = agent
\temail = agent@localhost
";

/// Work-tree bytes are blob bytes: no line-end conversion, no LFS or other filter, no keyword expansion.
const ATTRIBUTES: &str = "* -text -eol -filter -ident -working-tree-encoding\n";

/// git's flag for an entry that is not in the work tree on purpose.
const SKIP_WORKTREE: u16 = 1 << 14;

/// The files, as paths below `.git/`.
pub(super) fn files(
    commit: Oid,
    nodes: &[Node],
    alternates: &str,
    shallow: &[Oid],
) -> Result<Vec<Change>, SourceError> {
    if !alternates.starts_with('/') || alternates.contains(['\n', '\r', '"']) {
        return Err(SourceError::Git("alternates must be a plain absolute path".into()));
    }
    let mut files = vec![
        file("HEAD", "ref: refs/heads/main\n"),
        file("refs/heads/main", format!("{commit}\n")),
        file("config", CONFIG),
        file("info/attributes", ATTRIBUTES),
        file("objects/info/alternates", format!("{alternates}\n")),
        file("index", index(nodes)?),
    ];
    if !shallow.is_empty() {
        files.push(file("shallow", shallow_text(shallow)));
    }
    Ok(files)
}

fn file(path: &str, content: impl Into<Vec<u8>>) -> Change {
    Change { path: path.into(), mode: FileMode::Regular, content: content.into() }
}

/// An index that holds the tree. Sizes and times are zero, which git takes for "compare the content". Entries
/// that no work tree gets (submodules, dangerous names) are marked, so that `git status` is clean.
fn index(nodes: &[Node]) -> Result<Vec<u8>, SourceError> {
    let writing = git_error("writing the agent's index");
    let dir = tempfile::tempdir().map_err(io_error("writing the agent's index"))?;
    let path = dir.path().join("index");
    let mut index = Index::open(&path).map_err(&writing)?;
    for node in nodes.iter().filter(|node| node.is_unique) {
        let is_absent = !node.is_writable();
        let entry = IndexEntry {
            ctime: IndexTime::new(0, 0),
            mtime: IndexTime::new(0, 0),
            dev: 0,
            ino: 0,
            mode: node.kind.git_mode(),
            uid: 0,
            gid: 0,
            file_size: 0,
            id: node.id,
            flags: 0,
            flags_extended: if is_absent { SKIP_WORKTREE } else { 0 },
            path: node.path.clone(),
        };
        // Names that libgit2 refuses in an index are names that git refuses too.
        match index.add(&entry) {
            Err(_) if is_absent => {}
            added => added.map_err(&writing)?,
        }
    }
    index.write().map_err(&writing)?;
    read(&path)
}

fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    std::fs::read(path).map_err(io_error("writing the agent's index"))
}
