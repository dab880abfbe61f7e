//! A source tree that a test writes down, with a git repository of one commit behind it.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use acquire::{
    domain::{Change, CommitId, FileMode, Patch, RepoPath, TreeChanges},
    method::ports::{History, SourceError, SourceTree, TreeEntry},
};
use async_trait::async_trait;
use tokio::sync::mpsc::Sender;

pub struct MemoryTree {
    files: Vec<Change>,
    commit: CommitId,
    /// The bytes of git's index of this tree.
    index: Vec<u8>,
    /// A bare repository.
    folder: tempfile::TempDir,
    /// How many more times its files come to no end.
    endless: AtomicU32,
}

impl MemoryTree {
    /// A few entries of all kinds.
    pub fn example() -> Self {
        let entry =
            |path: &str, mode, content: &str| Change { path: path.into(), mode, content: content.into() };
        Self::of(vec![
            entry("README.md", FileMode::Regular, "# Example\n"),
            entry("link", FileMode::Symlink, "src/main.py"),
            entry("run.sh", FileMode::Executable, "#!/bin/sh\necho run\n"),
            entry("src/deep/er/data.txt", FileMode::Regular, ""),
            entry("src/main.py", FileMode::Regular, "print('hello')\n"),
            entry("way-out", FileMode::Symlink, "/etc/hostname"),
        ])
    }

    /// These entries, in order.
    pub fn of(files: Vec<Change>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init_bare(folder.path()).unwrap();
        let mut index = repository.index().unwrap();
        for file in &files {
            let entry = git2::IndexEntry {
                ctime: git2::IndexTime::new(0, 0),
                mtime: git2::IndexTime::new(0, 0),
                dev: 0,
                ino: 0,
                mode: file.mode.git(),
                uid: 0,
                gid: 0,
                file_size: 0,
                id: git2::Oid::ZERO_SHA1,
                flags: 0,
                flags_extended: 0,
                path: file.path.clone(),
            };
            index.add_frombuffer(&entry, &file.content).unwrap();
        }
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        index.write().unwrap();
        let author = git2::Signature::new("A", "a@example.org", &git2::Time::new(0, 0)).unwrap();
        let commit = repository.commit(None, &author, &author, "Start", &tree, &[]).unwrap();
        let index = std::fs::read(folder.path().join("index")).unwrap();
        let commit = CommitId::parse(&commit.to_string()).unwrap();
        Self { files, commit, index, folder, endless: AtomicU32::new(0) }
    }

    /// The next `times` that its files are wanted, they come and their end does not.
    pub fn endless(self, times: u32) -> Self {
        Self { endless: AtomicU32::new(times), ..self }
    }

    /// Of these times, those that are to come.
    #[allow(dead_code, reason = "not every binary has such a test")]
    pub fn endless_left(&self) -> u32 {
        self.endless.load(Ordering::Relaxed)
    }

    /// The history of the one commit; as long as the tree lives.
    pub fn history_now(&self) -> History {
        History { objects: self.folder.path().join("objects"), note: None }
    }
}

#[async_trait]
impl SourceTree for MemoryTree {
    fn commit(&self) -> &CommitId {
        &self.commit
    }

    async fn entries(&self) -> Result<Arc<Vec<TreeEntry>>, SourceError> {
        let entry = |file: &Change| TreeEntry {
            path: file.path.clone(),
            mode: file.mode,
            size: file.content.len() as u64,
        };
        Ok(Arc::new(self.files.iter().map(entry).collect()))
    }

    async fn read(&self, path: &RepoPath, _max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let file = self.files.iter().find(|file| file.path == path.as_str().as_bytes());
        Ok(file.map(|file| file.content.clone()))
    }

    async fn stream_files(&self, to: Sender<Change>) -> Result<(), SourceError> {
        for file in &self.files {
            if to.send(file.clone()).await.is_err() {
                return Err(SourceError::Git("nobody takes the files".into()));
            }
        }
        let less = |left: u32| left.checked_sub(1);
        if self.endless.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            to.closed().await;
        }
        Ok(())
    }

    async fn git_files(&self, alternates: &str) -> Result<Vec<Change>, SourceError> {
        let file =
            |path: &str, content: Vec<u8>| Change { path: path.into(), mode: FileMode::Regular, content };
        Ok(vec![
            file("HEAD", b"ref: refs/heads/main\n".to_vec()),
            file("config", b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n".to_vec()),
            file("index", self.index.clone()),
            file("objects/info/alternates", format!("{alternates}\n").into_bytes()),
            file("refs/heads/main", format!("{}\n", self.commit).into_bytes()),
        ])
    }

    async fn history(&self, _into: PathBuf, _max_bytes: u64) -> Result<History, SourceError> {
        Ok(self.history_now())
    }

    async fn build_patch(&self, _changes: TreeChanges) -> Result<Patch, SourceError> {
        Err(SourceError::Git("a tree in memory builds no patches".into()))
    }
}
