//! The packed histories that a mirror keeps, on disk.
//!
//! An entry is a folder below `history/` of the mirror: `pack/`, and a label that is written last, so that a
//! folder without one is the rest of a process that was killed. Whoever calls anything here holds a lock.

use std::{
    fs,
    path::{Path, PathBuf},
};

use git2::Oid;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{
    engine::{git_error, io_error},
    store::Store,
};
use crate::method::ports::SourceError;

/// Entries that a mirror keeps; the oldest go first.
const MAX_ENTRIES: usize = 8;
/// The file that makes a folder of packs an entry.
const LABEL: &str = "label.json";

/// What an entry says of itself, beside its packs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Label {
    /// The commit whose history this is.
    pub commit: String,
    /// The limit that the history was cut for; `None` where it is whole.
    pub cut_for: Option<u64>,
    /// Where the source's own history was cut off when this was packed.
    pub source_shallow: Vec<String>,
    /// Where the packed history is cut off: commits whose parents are not there.
    pub shallow: Vec<String>,
    /// Said to agents.
    pub note: Option<String>,
}

impl Label {
    pub fn commit(&self) -> Result<Oid, SourceError> {
        id(&self.commit)
    }

    pub fn shallow(&self) -> Result<Vec<Oid>, SourceError> {
        self.shallow.iter().map(|text| id(text)).collect()
    }
}

fn id(text: &str) -> Result<Oid, SourceError> {
    Oid::from_str(text).map_err(git_error("reading a kept history"))
}

/// Packs that hold one commit's history and nothing else.
pub(super) struct Entry {
    dir: PathBuf,
    pub label: Label,
}

impl Entry {
    fn open(dir: PathBuf) -> Option<Self> {
        let label = fs::read(dir.join(LABEL)).ok()?;
        Some(Self { dir, label: serde_json::from_slice(&label).ok()? })
    }

    pub fn packs(&self) -> Result<Vec<PathBuf>, SourceError> {
        packs_in(&self.dir.join("pack"))
    }
}

/// All entries of a mirror.
pub(super) fn entries(store: &Store) -> Result<Vec<Entry>, SourceError> {
    let reading = io_error("reading the kept histories");
    let dirs = fs::read_dir(folder(store)?).map_err(&reading)?;
    let mut found = Vec::new();
    for dir in dirs {
        found.extend(Entry::open(dir.map_err(&reading)?.path()));
    }
    Ok(found)
}

/// Removes what is too old, and what is unfinished. Only called by whoever holds the lock for packing.
pub(super) fn tidy(store: &Store) -> Result<(), SourceError> {
    let tidying = io_error("tidying the kept histories");
    let mut labelled = Vec::new();
    for dir in fs::read_dir(folder(store)?).map_err(&tidying)? {
        let dir = dir.map_err(&tidying)?.path();
        match fs::metadata(dir.join(LABEL)).and_then(|label| label.modified()) {
            Ok(written) => labelled.push((written, dir)),
            Err(_) => fs::remove_dir_all(dir).map_err(&tidying)?,
        }
    }
    labelled.sort();
    let excess = labelled.len().saturating_sub(MAX_ENTRIES);
    labelled[..excess].iter().try_for_each(|(_, dir)| fs::remove_dir_all(dir)).map_err(tidying)
}

/// An entry in the making; dropped, it is gone.
pub(super) struct Draft(TempDir);

impl Draft {
    pub fn new(store: &Store) -> Result<Self, SourceError> {
        let preparing = io_error("preparing the history");
        let dir = tempfile::tempdir_in(folder(store)?).map_err(&preparing)?;
        fs::create_dir(dir.path().join("pack")).map_err(&preparing)?;
        Ok(Self(dir))
    }

    /// A folder in the shape of git's `objects`.
    pub fn objects(&self) -> &Path {
        self.0.path()
    }

    pub fn packs(&self) -> Result<Vec<PathBuf>, SourceError> {
        packs_in(&self.0.path().join("pack"))
    }

    /// Takes packs of the same mirror in. Packs never change, so links will do.
    pub fn link(&self, packs: &[PathBuf]) -> Result<(), SourceError> {
        for file in packs.iter().flat_map(|pack| [pack.with_extension("idx"), pack.clone()]) {
            let target = self.0.path().join("pack").join(file.file_name().unwrap_or_default());
            fs::hard_link(&file, target).map_err(io_error("keeping the packed history"))?;
        }
        Ok(())
    }

    /// Makes it an entry, at once and as a whole.
    pub fn keep(self, store: &Store, label: Label) -> Result<Entry, SourceError> {
        let keeping = io_error("keeping the packed history");
        let text = serde_json::to_vec(&label).expect("strings and numbers are valid JSON");
        fs::write(self.0.path().join(LABEL), text).map_err(&keeping)?;
        let cut = label.cut_for.map(|bytes| format!("-{bytes}")).unwrap_or_default();
        let dir = folder(store)?.join(format!("{}{cut}", label.commit));
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(&keeping)?;
        }
        fs::rename(self.0.keep(), &dir).map_err(keeping)?;
        Ok(Entry { dir, label })
    }
}

fn folder(store: &Store) -> Result<PathBuf, SourceError> {
    let folder = store.dir().join("history");
    fs::create_dir_all(&folder).map_err(io_error("preparing the history"))?;
    Ok(folder)
}

/// The `.pack` files of a folder, in the order of their names.
pub(super) fn packs_in(dir: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let reading = io_error("reading packs");
    let mut packs = Vec::new();
    for file in fs::read_dir(dir).map_err(&reading)? {
        let path = file.map_err(&reading)?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            packs.push(path);
        }
    }
    packs.sort();
    Ok(packs)
}

/// Bytes of some packs together, without their indexes.
pub(super) fn total(packs: &[PathBuf]) -> Result<u64, SourceError> {
    let sizes = packs.iter().map(|pack| fs::metadata(pack).map(|meta| meta.len()));
    sizes.sum::<Result<u64, _>>().map_err(io_error("reading packs"))
}
