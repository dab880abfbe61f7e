//! A repository at one commit, read from its mirror.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use git2::{ErrorCode, ObjectType, Oid};
use tokio::sync::{OnceCell, mpsc::Sender};

use super::{
    agent_repository,
    engine::{blocking, check, git_error},
    history,
    lock::take_lock,
    patch,
    store::Store,
    walk::{self, Kind, Node},
};
use crate::{
    domain::{Change, CommitId, FileMode, Patch, RepoPath, TreeChanges},
    method::ports::{History, SourceError, SourceTree, TreeEntry},
};

/// Longest wait for another process that packs history of the same mirror.
const MAX_PACKING: Duration = Duration::from_secs(3600);

/// The tree of one commit; see [`SourceTree`].
pub struct CommitTree {
    pub(super) store: Store,
    commit: CommitId,
    id: Oid,
    /// Id of the tree object.
    pub(super) root: Oid,
    nodes: OnceCell<Arc<Vec<Node>>>,
    entries: OnceCell<Arc<Vec<TreeEntry>>>,
    /// Where the packed history ends; `None` until it is packed.
    shallow: Mutex<Option<Vec<Oid>>>,
}

impl CommitTree {
    /// Calls libgit2, so only on a blocking thread.
    pub(super) fn new(store: Store, id: Oid) -> Result<Self, SourceError> {
        let reading = git_error("reading the base commit");
        let root = store.repository()?.find_commit(id).map_err(&reading)?.tree_id();
        let commit = CommitId::parse(&id.to_string()).map_err(|e| SourceError::Git(e.to_string()))?;
        Ok(Self {
            store,
            commit,
            id,
            root,
            nodes: OnceCell::new(),
            entries: OnceCell::new(),
            shallow: Mutex::new(None),
        })
    }

    async fn nodes(&self) -> Result<Arc<Vec<Node>>, SourceError> {
        let (store, root) = (self.store.clone(), self.root);
        let walked = self.nodes.get_or_try_init(|| {
            blocking(move |token| walk::walk(&store.repository()?, root, token).map(Arc::new))
        });
        walked.await.cloned()
    }
}

#[async_trait]
impl SourceTree for CommitTree {
    fn commit(&self) -> &CommitId {
        &self.commit
    }

    async fn entries(&self) -> Result<Arc<Vec<TreeEntry>>, SourceError> {
        let listed = self.entries.get_or_try_init(|| async {
            let nodes = self.nodes().await?;
            let entries = nodes.iter().filter_map(|node| match node.kind {
                Kind::File(mode) => Some(TreeEntry { path: node.path.clone(), mode, size: node.size }),
                Kind::Submodule => None,
            });
            Ok(Arc::new(entries.collect()))
        });
        listed.await.cloned()
    }

    /// Symlinks are no files here: their target is text that an evidence check must not take for content.
    async fn read(&self, path: &RepoPath, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let (store, root, path) = (self.store.clone(), self.root, path.clone());
        blocking(move |_| {
            let reading = git_error("reading a file of the base commit");
            let repository = store.repository()?;
            let tree = repository.find_tree(root).map_err(&reading)?;
            let entry = match tree.get_path(path.as_str().as_ref()) {
                Ok(entry) => entry,
                Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
                Err(error) => return Err(reading(error)),
            };
            let is_file = entry.kind() == Some(ObjectType::Blob)
                && entry.filemode() != FileMode::Symlink.git().cast_signed();
            if !is_file {
                return Ok(None);
            }
            let odb = repository.odb().map_err(&reading)?;
            let (size, _) = odb.read_header(entry.id()).map_err(&reading)?;
            if size as u64 > max_bytes {
                return Err(SourceError::Limit(format!(
                    "{path} has {size} bytes, more than the limit of {max_bytes}"
                )));
            }
            let object = odb.read(entry.id()).map_err(&reading)?;
            Ok(Some(object.data().to_vec()))
        })
        .await
    }

    /// Leaves out what [`Node::is_writable`] refuses. Holds one file in memory beside those in the channel.
    async fn stream_files(&self, to: Sender<Change>) -> Result<(), SourceError> {
        let (store, nodes) = (self.store.clone(), self.nodes().await?);
        blocking(move |token| {
            let reading = git_error("reading the files of the base commit");
            let repository = store.repository()?;
            let odb = repository.odb().map_err(&reading)?;
            for node in nodes.iter().filter(|node| node.is_writable()) {
                let Kind::File(mode) = node.kind else { continue };
                check(token)?;
                let object = odb.read(node.id).map_err(&reading)?;
                let change = Change { path: node.path.clone(), mode, content: object.data().to_vec() };
                if to.blocking_send(change).is_err() {
                    break; // The receiver has seen enough, or has an error of its own to tell.
                }
            }
            Ok(())
        })
        .await
    }

    /// Fails before [`SourceTree::history`] was called: where history ends is part of these files.
    async fn git_files(&self, alternates: &str) -> Result<Vec<Change>, SourceError> {
        let shallow = self.shallow.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shallow = shallow.ok_or_else(|| {
            SourceError::Git("the agents' repository was asked for before its history was packed".into())
        })?;
        let (nodes, id, alternates) = (self.nodes().await?, self.id, alternates.to_owned());
        blocking(move |_| agent_repository::files(id, &nodes, &alternates, &shallow)).await
    }

    async fn history(&self, into: PathBuf, max_bytes: u64) -> Result<History, SourceError> {
        let (store, id) = (self.store.clone(), self.id);
        let packed = blocking(move |token| {
            // Packing is long; whoever comes second finds it done.
            let _lock = take_lock(&store.dir().join("history.lock"), MAX_PACKING, token)?;
            history::pack(&store, id, &into, max_bytes, token)
        });
        let packed = packed.await?;
        *self.shallow.lock().unwrap_or_else(PoisonError::into_inner) = Some(packed.shallow);
        Ok(packed.history)
    }

    async fn build_patch(&self, changes: TreeChanges) -> Result<Patch, SourceError> {
        let (store, root) = (self.store.clone(), self.root);
        blocking(move |_| patch::build(&store.repository()?, root, changes)).await
    }
}
