//! A repository in memory.

use std::sync::Arc;

use acquire::{
    domain::{Change, CommitId, FileMode, Patch, RepoPath, TreeChanges},
    method::ports::{History, SourceError, SourceTree, TreeEntry},
};
use async_trait::async_trait;
use tokio::sync::mpsc::Sender;

/// A tree that is its own truth; everything that needs git is refused.
pub struct MemorySource {
    commit: CommitId,
    files: Vec<Change>,
}

impl MemorySource {
    pub fn new(files: Vec<Change>) -> Self {
        Self { commit: CommitId::parse(&"a1".repeat(20)).unwrap(), files }
    }

    pub fn example() -> Self {
        Self::new(vec![
            file("README.md", "An example.\n"),
            Change { mode: FileMode::Executable, ..file("bin/hello", "#!/bin/sh\necho hello\n") },
            file("src/app.py", "def add(a, b):\n    return a - b\n"),
        ])
    }
}

pub fn file(path: &str, content: &str) -> Change {
    Change { path: path.into(), mode: FileMode::Regular, content: content.into() }
}

#[async_trait]
impl SourceTree for MemorySource {
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

    async fn read(&self, path: &RepoPath, _: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let found = self.files.iter().find(|file| file.path == path.as_str().as_bytes());
        Ok(found.map(|file| file.content.clone()))
    }

    async fn stream_files(&self, to: Sender<Change>) -> Result<(), SourceError> {
        for file in &self.files {
            if to.send(file.clone()).await.is_err() {
                return Err(SourceError::Git("nobody takes the files".into()));
            }
        }
        Ok(())
    }

    async fn git_files(&self, alternates: &str) -> Result<Vec<Change>, SourceError> {
        Ok(vec![file("objects/info/alternates", &format!("{alternates}\n"))])
    }

    async fn history(&self, _: std::path::PathBuf, _: u64) -> Result<History, SourceError> {
        Err(SourceError::Git("there is no git here".into()))
    }

    async fn build_patch(&self, _: TreeChanges) -> Result<Patch, SourceError> {
        Err(SourceError::Git("there is no git here".into()))
    }
}
