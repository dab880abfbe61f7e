//! Names that would get into each other's way in a checkout.

use std::collections::{HashMap, HashSet};

use crate::{domain::RepoPath, gate::shown};

/// The names of a tree: files, folders, and the key under which a file system that ignores case and Unicode
/// form would hold each.
#[derive(Default)]
pub(super) struct Names {
    files: HashSet<Vec<u8>>,
    folders: HashSet<Vec<u8>>,
    folded: HashMap<String, Vec<u8>>,
}

impl Names {
    /// `paths` are the entries of the base commit that stay. Those may collide among themselves.
    pub fn new<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut names = Self::default();
        for path in paths {
            names.files.insert(path.to_vec());
            names.folders.extend(folders(path).map(<[u8]>::to_vec));
            // A name that is no valid path has no key; nothing valid can collide with it exactly.
            if let Ok(valid) = RepoPath::from_bytes(path) {
                names.remember(&valid);
            }
        }
        names
    }

    /// Adds a new file, or says what it collides with.
    pub fn add(&mut self, path: &RepoPath) -> Result<(), String> {
        let bytes = path.as_str().as_bytes();
        if let Some(file) = folders(bytes).find(|folder| self.files.contains(*folder)) {
            return Err(format!("{} is a file", shown::path(file)));
        }
        if self.folders.contains(bytes) {
            return Err("there is a folder of this name".to_owned());
        }
        for (name, key) in spellings(path) {
            let known = self.files.contains(name) || self.folders.contains(name);
            if let Some(other) = self.folded.get(&key).filter(|other| !known && other.as_slice() != name) {
                let other = shown::path(other);
                return Err(format!("its name differs from {other} only in case or Unicode form"));
            }
        }
        self.remember(path);
        self.folders.extend(folders(bytes).map(<[u8]>::to_vec));
        self.files.insert(bytes.to_vec());
        Ok(())
    }

    fn remember(&mut self, path: &RepoPath) {
        for (name, key) in spellings(path) {
            self.folded.entry(key).or_insert_with(|| name.to_vec());
        }
    }
}

/// The folders that a path lies in, from the top.
pub(super) fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// The path and each folder that it lies in, with their keys.
fn spellings(path: &RepoPath) -> impl Iterator<Item = (&[u8], String)> {
    let bytes = path.as_str().as_bytes();
    let folded = path.folded();
    // Folding neither makes nor takes away a slash.
    let ends: Vec<usize> = folded.match_indices('/').map(|(at, _)| at).chain([folded.len()]).collect();
    folders(bytes).chain([bytes]).zip(ends).map(move |(name, end)| (name, folded[..end].to_owned()))
}
