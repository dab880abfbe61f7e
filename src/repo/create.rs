//! A new repository from files that we ship: the demo's.

use std::path::PathBuf;

use git2::{IndexEntry, IndexTime, Repository, RepositoryInitOptions, Signature, Time};

use super::engine::{blocking, git_error, io_error};
use crate::{
    domain::{CommitId, FileMode, RepoPath},
    method::ports::SourceError,
};

/// Makes a repository with a work tree in `folder` and one commit on `main`. The same files give the same
/// commit id on every machine and day.
pub async fn create_repository(
    folder: PathBuf,
    files: Vec<(RepoPath, FileMode, Vec<u8>)>,
    message: String,
) -> Result<CommitId, SourceError> {
    blocking(move |_| {
        let making = git_error("making the example repository");
        let mut options = RepositoryInitOptions::new();
        options.initial_head("main").external_template(false).no_reinit(true);
        let repository = Repository::init_opts(&folder, &options).map_err(&making)?;
        let mut index = repository.index().map_err(&making)?;
        for (path, mode, content) in files {
            let place = folder.join(path.as_str());
            let write = || {
                std::fs::create_dir_all(place.parent().unwrap_or(&folder))?;
                std::fs::write(&place, &content)
            };
            write().map_err(io_error("writing the example project"))?;
            index.add_frombuffer(&entry(&path, mode), &content).map_err(&making)?;
        }
        index.write().map_err(&making)?;
        let tree = index.write_tree().and_then(|id| repository.find_tree(id)).map_err(&making)?;
        let author = Signature::new("acquire", "acquire@example.invalid", &Time::new(1_767_225_600, 0))
            .map_err(&making)?;
        let id = repository.commit(Some("HEAD"), &author, &author, &message, &tree, &[]).map_err(&making)?;
        CommitId::parse(&id.to_string()).map_err(|e| SourceError::Git(e.to_string()))
    })
    .await
}

fn entry(path: &RepoPath, mode: FileMode) -> IndexEntry {
    let never = IndexTime::new(0, 0);
    IndexEntry {
        ctime: never,
        mtime: never,
        dev: 0,
        ino: 0,
        mode: mode.git(),
        uid: 0,
        gid: 0,
        file_size: 0,
        id: git2::Oid::ZERO_SHA1,
        flags: 0,
        flags_extended: 0,
        path: path.as_str().into(),
    }
}
