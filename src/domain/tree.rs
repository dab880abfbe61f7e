//! Changes to a file tree, as a sandbox reports them. Untrusted until `gate` has looked.

use serde::{Deserialize, Serialize};

/// A path in a file tree as bytes: relative, parts separated by `/`. Linux and git allow nearly everything in it.
pub type TreePath = Vec<u8>;

/// The kinds of entries that a git tree holds and that may change (S-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileMode {
    /// 100644
    Regular,
    /// 100755
    Executable,
    /// 120000; the content is the target.
    Symlink,
}

impl FileMode {
    /// The mode as git writes it.
    pub fn git(self) -> u32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
        }
    }

    /// `None` for directories (040000), submodules (160000) and modes that git no longer writes.
    pub fn from_git(mode: u32) -> Option<Self> {
        match mode {
            0o100_644 | 0o100_664 => Some(Self::Regular),
            0o100_755 => Some(Self::Executable),
            0o120_000 => Some(Self::Symlink),
            _ => None,
        }
    }
}

/// A file that is new or whose content or mode differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: TreePath,
    pub mode: FileMode,
    pub content: Vec<u8>,
}

/// What differs between two states of a file tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeChanges {
    pub changed: Vec<Change>,
    pub removed: Vec<TreePath>,
}

impl TreeChanges {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    /// Lays `later` over these changes, so that the result is both in order.
    pub fn extend(&mut self, later: Self) {
        let touched: std::collections::HashSet<&[u8]> = later
            .changed
            .iter()
            .map(|c| c.path.as_slice())
            .chain(later.removed.iter().map(Vec::as_slice))
            .collect();
        self.changed.retain(|c| !touched.contains(c.path.as_slice()));
        self.removed.retain(|p| !touched.contains(p.as_slice()));
        drop(touched);
        self.changed.extend(later.changed);
        self.removed.extend(later.removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, content: &str) -> Change {
        Change { path: path.into(), mode: FileMode::Regular, content: content.into() }
    }

    #[test]
    fn later_changes_win() {
        let mut all =
            TreeChanges { changed: vec![change("a", "1"), change("b", "1")], removed: vec![b"c".to_vec()] };
        all.extend(TreeChanges { changed: vec![change("c", "2")], removed: vec![b"a".to_vec()] });
        assert_eq!(
            all,
            TreeChanges { changed: vec![change("b", "1"), change("c", "2")], removed: vec![b"a".to_vec()] }
        );
    }
}
