//! Writes the workspace's first content.
//!
//! It runs before any command, so nothing races with it; what is hostile are the paths and the contents.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd, OwnedFd},
};

use super::{
    changes::{Digest, Snapshot},
    system::{self, Kind, Stamp},
    wire::{Mode, Stage},
    workspace::{self, Failure},
};

/// A fill under way. The first failure is kept; what follows it is read and thrown away.
pub struct Fill {
    root: OwnedFd,
    /// Base entries as they were written, with the digests of files.
    base: BTreeMap<Vec<u8>, (Stamp, Option<u64>)>,
    /// Whether git files have come.
    git: bool,
    /// Whether saved changes have come.
    changed: bool,
    open: Option<OpenEntry>,
    /// The directory that was written to last; trees come in order.
    last_parent: Option<(Vec<u8>, OwnedFd)>,
    entries: u64,
    bytes: u64,
    failure: Option<Failure>,
}

/// An entry whose content has not come to its end.
struct OpenEntry {
    stage: Stage,
    path: Vec<u8>,
    parent: OwnedFd,
    missing: u64,
    sink: Sink,
}

enum Sink {
    File { file: File, digest: Digest },
    Target(Vec<u8>),
}

/// What a fill came to.
pub struct Filled {
    /// Base entries as they were written.
    pub base: Snapshot,
    /// Whether there are saved changes on top.
    pub changed: bool,
    /// Whether there are git files.
    pub git: bool,
    pub entries: u64,
    pub bytes: u64,
}

impl Fill {
    /// Below `root`, the workspace.
    pub fn new(root: OwnedFd) -> Self {
        Self {
            root,
            base: BTreeMap::new(),
            git: false,
            changed: false,
            open: None,
            last_parent: None,
            entries: 0,
            bytes: 0,
            failure: None,
        }
    }

    pub fn entry(&mut self, stage: Stage, mode: Mode, size: u64, path: Vec<u8>, content: &[u8]) {
        self.attempt(|fill| fill.begin(stage, mode, size, path));
        self.more(content);
    }

    pub fn more(&mut self, content: &[u8]) {
        self.attempt(|fill| fill.write(content));
    }

    pub fn remove(&mut self, path: &[u8]) {
        self.attempt(|fill| {
            fill.enter(Stage::Saved)?;
            fill.unlink(path)
        });
    }

    pub fn finish(mut self) -> Result<Filled, Failure> {
        self.attempt(Self::whole);
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(Filled {
                base: Snapshot::of(self.base),
                changed: self.changed,
                git: self.git,
                entries: self.entries,
                bytes: self.bytes,
            }),
        }
    }

    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Failure>) {
        if self.failure.is_none() {
            self.failure = step(self).err();
        }
    }

    /// The last entry must have come to its end.
    fn whole(&mut self) -> Result<(), Failure> {
        match &self.open {
            Some(entry) => Err(Failure::refused(format!(
                "{} ends {} bytes too early",
                workspace::shown(&entry.path),
                entry.missing
            ))),
            None => Ok(()),
        }
    }

    /// Base and git entries may mix; saved changes come last.
    fn enter(&mut self, stage: Stage) -> Result<(), Failure> {
        self.whole()?;
        match stage {
            Stage::Saved => self.changed = true,
            _ if self.changed => {
                return Err(Failure::refused("the tree must come before the saved changes".into()));
            }
            Stage::Git => self.git = true,
            Stage::Base => {}
        }
        Ok(())
    }

    fn begin(&mut self, stage: Stage, mode: Mode, size: u64, path: Vec<u8>) -> Result<(), Failure> {
        self.enter(stage)?;
        let parts = allowed(stage, &path)?;
        let failed = |error: io::Error| Failure::of("write", &path, &error);
        let parent = self.parent(stage, &parts).map_err(failed)?;
        let name = parts[parts.len() - 1];
        if stage == Stage::Saved {
            self.clear(&parent, name).map_err(failed)?;
        }
        let sink = match mode {
            Mode::Symlink => Sink::Target(Vec::new()),
            Mode::Regular | Mode::Executable => {
                let flags = system::O_WRONLY | system::O_CREAT | system::O_EXCL;
                let permissions = if mode == Mode::Executable { 0o755 } else { 0o644 };
                let file = system::open_in(parent.as_fd(), name, flags, permissions).map_err(failed)?;
                Sink::File { file: file.into(), digest: Digest::default() }
            }
        };
        self.entries += 1;
        self.bytes += size;
        self.open = Some(OpenEntry { stage, path, parent, missing: size, sink });
        Ok(())
    }

    fn write(&mut self, content: &[u8]) -> Result<(), Failure> {
        let Some(mut entry) = self.open.take() else {
            return Err(Failure::refused("content came without an entry".into()));
        };
        let failed = |error: io::Error| Failure::of("write", &entry.path, &error);
        entry.missing = entry.missing.checked_sub(content.len() as u64).ok_or_else(|| {
            Failure::refused(format!("{} is longer than it said", workspace::shown(&entry.path)))
        })?;
        match &mut entry.sink {
            Sink::File { file, digest } => {
                file.write_all(content).map_err(failed)?;
                digest.add(content);
            }
            Sink::Target(target) => target.extend_from_slice(content),
        }
        if entry.missing > 0 {
            self.open = Some(entry);
            return Ok(());
        }
        let name = entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let (stamp, digest) = match &entry.sink {
            Sink::File { file, digest } => (system::stamp_in(file.as_fd(), b""), Some(digest.finish())),
            Sink::Target(target) => {
                system::make_link_in(entry.parent.as_fd(), name, target).map_err(failed)?;
                (system::stamp_in(entry.parent.as_fd(), name), None)
            }
        };
        if entry.stage == Stage::Base {
            let stamp = stamp.map_err(failed)?;
            self.base.insert(entry.path, (stamp, digest));
        }
        Ok(())
    }

    /// The directory of a path, made where it is missing.
    fn parent(&mut self, stage: Stage, parts: &[&[u8]]) -> io::Result<OwnedFd> {
        let parent_path = parts[..parts.len() - 1].join(&b'/');
        if let Some((path, dir)) = &self.last_parent
            && *path == parent_path
        {
            return dir.try_clone();
        }
        let mut dir = self.root.try_clone()?;
        for part in &parts[..parts.len() - 1] {
            dir = match workspace::open_dir(&dir, part) {
                Ok(inner) => inner,
                Err(error) => {
                    // Where a saved change needs a directory, something else may stand from the base.
                    match error.raw_os_error() {
                        Some(system::ENOENT) => {}
                        Some(system::ENOTDIR) if stage == Stage::Saved => {
                            system::remove_in(dir.as_fd(), part, 0)?;
                        }
                        _ => return Err(error),
                    }
                    system::make_dir_in(dir.as_fd(), part)?;
                    workspace::open_dir(&dir, part)?
                }
            };
        }
        self.last_parent = Some((parent_path, dir.try_clone()?));
        Ok(dir)
    }

    /// Makes room for a saved entry.
    fn clear(&mut self, parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
        match system::stamp_in(parent.as_fd(), name) {
            Err(error) if error.raw_os_error() == Some(system::ENOENT) => Ok(()),
            Err(error) => Err(error),
            Ok(stamp) if stamp.kind() == Kind::Directory => {
                self.last_parent = None;
                clear_dir(&workspace::open_dir(parent, name)?)?;
                system::remove_in(parent.as_fd(), name, system::REMOVE_DIRECTORY)
            }
            Ok(_) => system::remove_in(parent.as_fd(), name, 0),
        }
    }

    /// Removes a file or symlink, and directories that it leaves empty. What is not there, or is a
    /// directory by now, is left as it is.
    fn unlink(&mut self, path: &[u8]) -> Result<(), Failure> {
        let parts = allowed(Stage::Saved, path)?;
        self.last_parent = None;
        let gone = |error: &io::Error| {
            matches!(error.raw_os_error(), Some(system::ENOENT | system::ENOTDIR | system::EISDIR))
        };
        let removed = workspace::open_parent(&self.root, &parts)
            .and_then(|parent| system::remove_in(parent.as_fd(), parts[parts.len() - 1], 0));
        match removed {
            Err(error) if gone(&error) => return Ok(()),
            other => other.map_err(|error| Failure::of("remove", path, &error))?,
        }
        for depth in (1..parts.len()).rev() {
            let emptied = workspace::open_parent(&self.root, &parts[..depth]).and_then(|parent| {
                system::remove_in(parent.as_fd(), parts[depth - 1], system::REMOVE_DIRECTORY)
            });
            if emptied.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Removes what a directory holds.
fn clear_dir(dir: &OwnedFd) -> io::Result<()> {
    for name in system::names_in(dir)? {
        if system::stamp_in(dir.as_fd(), &name)?.kind() == Kind::Directory {
            clear_dir(&workspace::open_dir(dir, &name)?)?;
            system::remove_in(dir.as_fd(), &name, system::REMOVE_DIRECTORY)?;
        } else {
            system::remove_in(dir.as_fd(), &name, 0)?;
        }
    }
    Ok(())
}

/// The parts of a path that this stage may write: below `.git` for the host's git files, and nowhere near
/// a `.git` for everything else (S-23).
fn allowed(stage: Stage, path: &[u8]) -> Result<Vec<&[u8]>, Failure> {
    let parts = workspace::parts(path)?;
    let plain = if stage == Stage::Git {
        match parts.split_first() {
            Some((&b".git", rest)) if !rest.is_empty() => rest,
            _ => return Err(Failure::refused(format!("{} is not below .git", workspace::shown(path)))),
        }
    } else {
        &parts[..]
    };
    if plain.contains(&&b".git"[..]) {
        return Err(Failure::refused(format!(
            "{} has a .git part, which only the host's own git files may",
            workspace::shown(path)
        )));
    }
    Ok(parts)
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
