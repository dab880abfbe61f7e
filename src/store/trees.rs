//! An agent's saved trees: a folder of deltas, each named by its turn.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{domain::TreeChanges, method::ports::StoreError};

use super::{atomic, delta, file_error};

/// Each delta holds what changed since the one before it; all up to a turn make that turn's tree.
pub struct SavedTrees {
    folder: PathBuf,
}

impl SavedTrees {
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Stores a delta. A turn may be saved twice, such as at a stage's end; then the second goes on from
    /// the first.
    ///
    /// That nothing changed is an empty file, which is not synced: should power loss take it, the run goes on
    /// from an earlier turn.
    pub fn save(&self, turn: u32, changes: TreeChanges) -> Result<(), StoreError> {
        atomic::make_own_folder(&self.folder)?;
        let path = self.folder.join(format!("{turn:06}.delta"));
        if changes.is_empty() {
            // Appending leaves a delta that is there already as it is.
            let made = fs::OpenOptions::new().append(true).create(true).open(&path);
            return made.map(drop).map_err(|error| file_error(&path, format!("cannot be made: {error}")));
        }
        atomic::sweep(&self.folder)?;
        let mut all = read(&path)?.unwrap_or_default();
        all.extend(changes);
        atomic::write(&path, &delta::encode(&all))
    }

    /// The newest tree of a turn up to `turn`, with its turn.
    pub fn newest(&self, turn: u32) -> Result<Option<(u32, TreeChanges)>, StoreError> {
        let mut newest = None;
        let mut all = TreeChanges::default();
        for (saved, path) in self.deltas()?.into_iter().take_while(|(saved, _)| *saved <= turn) {
            all.extend(read(&path)?.unwrap_or_default());
            newest = Some(saved);
        }
        Ok(newest.map(|saved| (saved, all)))
    }

    /// Drops the trees of all turns after `last`, the newest first, so that a kill in between leaves no gap.
    pub fn cut(&self, last: u32) -> Result<(), StoreError> {
        for (_, path) in self.deltas()?.into_iter().rev().take_while(|(saved, _)| *saved > last) {
            atomic::remove(&path)?;
        }
        Ok(())
    }

    /// All deltas, oldest first. Files with other names are none of ours.
    fn deltas(&self) -> Result<Vec<(u32, PathBuf)>, StoreError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let failed = |error| file_error(&self.folder, format!("cannot be read: {error}"));
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(turn) = name.and_then(|name| name.strip_suffix(".delta")?.parse().ok()) {
                found.push((turn, path));
            }
        }
        found.sort();
        Ok(found)
    }
}

fn read(path: &Path) -> Result<Option<TreeChanges>, StoreError> {
    let Some(bytes) = atomic::read(path)? else { return Ok(None) };
    if bytes.is_empty() {
        return Ok(Some(TreeChanges::default()));
    }
    delta::decode(&bytes).map(Some).map_err(|why| {
        let what_to_do = "delete it and the newer files beside it to go on from an earlier turn";
        file_error(path, format!("is damaged ({why}); {what_to_do}, or start a new run"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Change, FileMode};

    fn set(path: &str, content: &[u8]) -> TreeChanges {
        let change = Change { path: path.into(), mode: FileMode::Executable, content: content.into() };
        TreeChanges { changed: vec![change], removed: vec![] }
    }

    fn gone(path: &str) -> TreeChanges {
        TreeChanges { changed: vec![], removed: vec![path.into()] }
    }

    #[test]
    fn a_turn_without_changes_has_a_tree_too_and_takes_none_away() {
        let folder = tempfile::tempdir().unwrap();
        let trees = SavedTrees::of(&folder.path().join("resolver"));
        trees.save(1, TreeChanges::default()).unwrap();
        assert_eq!(trees.newest(9).unwrap(), Some((1, TreeChanges::default())));
        trees.save(2, set("a", b"x")).unwrap();
        trees.save(2, TreeChanges::default()).unwrap();
        trees.save(3, TreeChanges::default()).unwrap();
        assert_eq!(trees.newest(9).unwrap(), Some((3, set("a", b"x"))));
        trees.save(3, gone("a")).unwrap();
        assert_eq!(trees.newest(9).unwrap(), Some((3, gone("a"))));
    }

    #[test]
    fn deltas_lie_over_one_another_in_the_order_of_turns() {
        let folder = tempfile::tempdir().unwrap();
        let trees = SavedTrees::of(&folder.path().join("resolver"));
        assert_eq!(trees.newest(9).unwrap(), None);
        trees.save(12, gone("a")).unwrap();
        trees.save(3, set("a", b"\0\xff")).unwrap();
        trees.save(3, set("b", b"")).unwrap();
        let (turn, third) = trees.newest(11).unwrap().unwrap();
        assert_eq!((turn, third.changed.len(), third.removed.len()), (3, 2, 0));
        let (turn, last) = trees.newest(12).unwrap().unwrap();
        assert_eq!(turn, 12);
        assert_eq!(last, TreeChanges { changed: set("b", b"").changed, removed: gone("a").removed });
        trees.cut(11).unwrap();
        assert_eq!(trees.newest(u32::MAX).unwrap().unwrap().0, 3);
        trees.cut(0).unwrap();
        assert_eq!(trees.newest(u32::MAX).unwrap(), None);
    }

    /// A kill while a tree is being saved leaves an unfinished file, which is neither read nor kept.
    #[test]
    fn an_unfinished_tree_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let trees = SavedTrees::of(folder.path());
        trees.save(1, set("a", b"1")).unwrap();
        fs::write(folder.path().join(".unfinished-0"), b"acquire-del").unwrap();
        assert_eq!(trees.newest(9).unwrap().unwrap().0, 1);
        trees.save(2, set("a", b"2")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn damage_is_told_with_the_file_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let trees = SavedTrees::of(folder.path());
        trees.save(7, set("a", b"1")).unwrap();
        let path = folder.path().join("000007.delta");
        let mut bytes = fs::read(&path).unwrap();
        let content = bytes.len() - 34; // a digest of 32 bytes and its mark follow
        bytes[content] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = trees.newest(9).unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "DIR"), @"run state: DIR/000007.delta: is damaged (its checksum does not match); delete it and the newer files beside it to go on from an earlier turn, or start a new run");
    }
}
