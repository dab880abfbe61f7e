//! S-26: what running things leaves behind.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use crate::{domain::RepoPath, method::ports::TreeEntry};

/// Folders that tools fill for themselves.
const CACHE_FOLDERS: [&str; 19] = [
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".eggs",
    ".venv",
    ".ipynb_checkpoints",
    "node_modules",
    ".npm",
    ".nyc_output",
    ".parcel-cache",
    ".turbo",
    ".gradle",
    ".sass-cache",
    ".bundle",
    ".cache",
];
const CACHE_FOLDER_ENDINGS: [&str; 1] = [".egg-info"];
const RUBBISH_FILES: [&str; 5] = [".DS_Store", "Thumbs.db", "desktop.ini", ".coverage", "nohup.out"];
const RUBBISH_ENDINGS: [&str; 6] = [".pyc", ".pyo", ".swp", ".swo", ".rej", ".orig"];

/// Larger ignore files are not read.
const MAX_IGNORE_FILE: usize = 256 * 1024;

/// Tells new files that nobody would want in a patch. Files of the base commit are never asked about.
pub(super) struct Rubbish {
    /// By the folder that the ignore file lies in, without a slash at its end.
    ignores: HashMap<Vec<u8>, Gitignore>,
    /// Caches that the base commit has files in: there they are part of the project.
    tracked: HashSet<Vec<u8>>,
    /// Folders that were looked at.
    known: HashMap<Vec<u8>, Option<&'static str>>,
}

const IGNORED: &str = "ignored by the repository's .gitignore";
const CACHE: &str = "a cache or left-over of a tool";
/// Every reason that is given here.
pub(super) const REASONS: [&str; 2] = [IGNORED, CACHE];

impl Rubbish {
    pub fn new(base: &[TreeEntry], ignore_files: &[(RepoPath, Vec<u8>)]) -> Self {
        let mut tracked = HashSet::new();
        for entry in base {
            for (folder, name) in folders(&entry.path) {
                if is_cache(name) {
                    tracked.insert(folder.to_vec());
                }
            }
        }
        let ignores = ignore_files
            .iter()
            .filter(|(_, content)| content.len() <= MAX_IGNORE_FILE)
            .map(|(path, content)| {
                let folder = path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
                (folder.as_bytes().to_vec(), parse(content))
            })
            .collect();
        Self { ignores, tracked, known: HashMap::new() }
    }

    /// The topmost rubbish that the new file is part of (a folder above it, or itself), and why it is.
    pub fn of<'a>(&mut self, path: &'a [u8]) -> Option<(&'a [u8], &'static str)> {
        for (folder, name) in folders(path) {
            let reason = match self.known.get(folder) {
                Some(reason) => *reason,
                None => {
                    let reason = if is_cache(name) && !self.tracked.contains(folder) {
                        Some(CACHE)
                    } else {
                        self.is_ignored(folder, true).then_some(IGNORED)
                    };
                    self.known.insert(folder.to_vec(), reason);
                    reason
                }
            };
            if let Some(reason) = reason {
                return Some((folder, reason));
            }
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let is_left_over = RUBBISH_FILES.iter().any(|file| name == file.as_bytes())
            || RUBBISH_ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes()));
        if is_left_over {
            return Some((path, CACHE));
        }
        self.is_ignored(path, false).then_some((path, IGNORED))
    }

    /// As git decides: the ignore file that lies nearest has the last word. Folders above are asked before.
    fn is_ignored(&self, path: &[u8], is_folder: bool) -> bool {
        let mut folder = path;
        while !folder.is_empty() {
            folder = folder.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &folder[..at]);
            let Some(ignore) = self.ignores.get(folder) else { continue };
            let below = if folder.is_empty() { path } else { &path[folder.len() + 1..] };
            match ignore.matched(Path::new(OsStr::from_bytes(below)), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Each folder that the path lies in, from the top: its path and its name.
fn folders(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.scan(0, |start, at| {
        let name = &path[*start..at];
        *start = at + 1;
        Some((&path[..at], name))
    })
}

fn is_cache(name: &[u8]) -> bool {
    CACHE_FOLDERS.iter().any(|folder| name == folder.as_bytes())
        || CACHE_FOLDER_ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes()))
}

/// Lines that are no patterns are passed over, as git does.
fn parse(content: &[u8]) -> Gitignore {
    let text = String::from_utf8_lossy(content);
    let mut builder = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{FEFF}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
