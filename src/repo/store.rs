//! The bare repository on this machine that a run reads and writes.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use git2::{Config, Repository, RepositoryOpenFlags};

use super::engine::{git_error, init, io_error};
use crate::method::ports::SourceError;

/// A bare repository in the cache folder. For a source on this machine it holds no copy of the source's
/// objects but borrows them, as git's alternates do: copying a large history by way of libgit2 compresses it
/// anew, which takes minutes.
#[derive(Debug, Clone)]
pub(super) struct Store {
    dir: PathBuf,
    /// The `objects` folder of the source, which is only read.
    borrowed: Option<PathBuf>,
}

impl Store {
    /// Creates the repository where there is none yet. Only called under the mirror's lock.
    pub(super) fn create(dir: PathBuf, borrowed: Option<PathBuf>) -> Result<Self, SourceError> {
        init();
        let store = Self { dir, borrowed };
        if store.repository().is_err() {
            Repository::init_bare(&store.dir).map_err(git_error("creating the mirror"))?;
            store.repository()?;
        }
        Ok(store)
    }

    /// The repository in `dir`, if there is one.
    pub(super) fn existing(dir: PathBuf) -> Option<Self> {
        let store = Self { dir, borrowed: None };
        store.repository().is_ok().then_some(store)
    }

    /// A handle of one's own, for one thread.
    ///
    /// It has an empty configuration: neither the file in the mirror nor the source's is read. Remotes that
    /// transfer cannot be detached in libgit2, so this is what keeps `insteadOf` out (S-54).
    pub(super) fn repository(&self) -> Result<Repository, SourceError> {
        init();
        let opening = git_error("opening the mirror");
        // `open_bare` would not read where history is cut off.
        let flags = RepositoryOpenFlags::BARE | RepositoryOpenFlags::NO_SEARCH;
        let no_ceiling = std::iter::empty::<&Path>();
        let repository = Repository::open_ext(&self.dir, flags, no_ceiling).map_err(&opening)?;
        let empty = Config::new().map_err(&opening)?;
        repository.set_config(&empty).map_err(&opening)?;
        if let Some(objects) = &self.borrowed {
            borrow(&repository, objects)?;
        }
        Ok(repository)
    }

    /// A bare repository in the empty folder `dir` that sees the objects of this one, and whose history ends
    /// at the commits `shallow`.
    pub(super) fn view(&self, dir: &Path, shallow: &[git2::Oid]) -> Result<Repository, SourceError> {
        let viewing = git_error("preparing the history");
        Repository::init_bare(dir).map_err(&viewing)?;
        write_shallow(&dir.join("shallow"), shallow)?;
        let view = Self { dir: dir.to_owned(), borrowed: Some(self.dir.join("objects")) }.repository()?;
        if let Some(objects) = &self.borrowed {
            borrow(&view, objects)?;
        }
        Ok(view)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The `objects` folders that this repository reads from.
    pub(super) fn objects_folders(&self) -> Vec<PathBuf> {
        [Some(self.dir.join("objects")), self.borrowed.clone()].into_iter().flatten().collect()
    }

    /// Where the history of the source itself is cut off.
    pub(super) fn shallow(&self) -> Result<Vec<git2::Oid>, SourceError> {
        let text = read_if_any(&self.dir.join("shallow")).map_err(io_error("reading the mirror"))?;
        let text = text.unwrap_or_default();
        let ids = text.lines().map(git2::Oid::from_str).collect::<Result<_, _>>();
        ids.map_err(git_error("reading the mirror's shallow file"))
    }

    /// Takes over where the history of the source on this machine is cut off. Only called under the mirror's
    /// lock; an unchanged file is left alone, since others may be reading it.
    pub(super) fn copy_shallow(&self, source: &Path) -> Result<(), SourceError> {
        let copying = io_error("reading the repository's shallow file");
        let target = self.dir.join("shallow");
        let (theirs, ours) =
            (read_if_any(source).map_err(&copying)?, read_if_any(&target).map_err(&copying)?);
        match theirs {
            theirs if theirs == ours => Ok(()),
            Some(text) => fs::write(target, text).map_err(copying),
            None => fs::remove_file(target).map_err(copying),
        }
    }
}

fn read_if_any(path: &Path) -> std::io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes git's `shallow` file, which has one commit a line; without commits there is none.
fn write_shallow(path: &Path, commits: &[git2::Oid]) -> Result<(), SourceError> {
    if commits.is_empty() {
        return Ok(());
    }
    fs::write(path, shallow_text(commits)).map_err(io_error("preparing the history"))
}

pub(super) fn shallow_text(commits: &[git2::Oid]) -> String {
    commits.iter().map(|id| format!("{id}\n")).collect()
}

fn borrow(repository: &Repository, objects: &Path) -> Result<(), SourceError> {
    let odb = repository.odb().map_err(git_error("opening the mirror"))?;
    let own = fs::metadata(repository.path().join("objects")).map_err(io_error("opening the mirror"))?;
    let theirs = fs::metadata(objects).map_err(io_error("opening the repository"))?;
    // libgit2 takes folders with one inode number for the same folder, even on different devices.
    if own.ino() == theirs.ino() && own.dev() != theirs.dev() {
        return Err(SourceError::Git(format!(
            "the folders {} and {} have one inode number, which libgit2 cannot tell apart; move the cache folder",
            repository.path().display(),
            objects.display()
        )));
    }
    let path = objects.to_str().ok_or_else(|| {
        SourceError::Input(format!("the folder name {} is not UTF-8; rename it", objects.display()))
    })?;
    odb.add_disk_alternate(path).map_err(git_error("opening the repository"))
}
