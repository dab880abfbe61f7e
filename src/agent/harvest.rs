//! From what a sandbox lists to changes that may enter a git tree. `gate` decides; this fetches.

use std::{collections::HashMap, sync::Arc};

use crate::{
    domain::{Change, LeftOut, RepoPath, TreeChanges},
    gate::harvest::{HarvestLimits, Selection, select},
    method::ports::{Listed, ListedKind, Sandbox, SandboxError, SourceError, SourceTree, TreeEntry},
};

/// Largest `.gitignore` that is read, in bytes.
const MAX_IGNORE_BYTES: u64 = 256 * 1024;

/// What left the sandbox, and what stayed.
#[derive(Debug, Default)]
pub struct Harvest {
    pub changes: TreeChanges,
    pub left_out: Vec<LeftOut>,
    /// What was asked to stay but may not: it belongs to the repository.
    pub kept: Vec<LeftOut>,
}

/// The base commit's facts that decide what may leave.
pub struct Harvester {
    base: Arc<Vec<TreeEntry>>,
    ignore_files: Vec<(RepoPath, Vec<u8>)>,
    limits: HarvestLimits,
}

impl Harvester {
    pub async fn new(tree: &dyn SourceTree, limits: HarvestLimits) -> Result<Self, SourceError> {
        let base = tree.entries().await?;
        let mut ignore_files = Vec::new();
        for entry in base.iter() {
            let is_ignore = entry.path == b".gitignore" || entry.path.ends_with(b"/.gitignore");
            let Ok(path) = RepoPath::from_bytes(&entry.path) else { continue };
            if !is_ignore || entry.size > MAX_IGNORE_BYTES {
                continue;
            }
            if let Some(text) = tree.read(&path, MAX_IGNORE_BYTES).await? {
                ignore_files.push((path, text));
            }
        }
        Ok(Self { base, ignore_files, limits })
    }

    /// Of an empty base, without a repository to read.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Self {
        Self { base: Arc::default(), ignore_files: Vec::new(), limits: HarvestLimits::default() }
    }

    /// Decides without fetching. The error is a total that is over its limit.
    pub fn select(&self, listed: &[Listed], leave_out: &[String]) -> Result<Selection, SandboxError> {
        // After most turns nothing changed, and looking through the base tree would be what costs most.
        if listed.is_empty() {
            return Ok(Selection::default());
        }
        select(listed, &self.base, &self.ignore_files, leave_out, &self.limits)
            .map_err(|over| SandboxError::Limit(over.to_string()))
    }

    /// Decides on changes whose contents are here.
    pub fn take(&self, saved: &TreeChanges, leave_out: &[String]) -> Result<Harvest, SandboxError> {
        let changed = saved.changed.iter().map(|change| {
            let size = change.content.len() as u64;
            Listed { path: change.path.clone(), kind: ListedKind::Changed { mode: change.mode, size } }
        });
        let removed =
            saved.removed.iter().map(|path| Listed { path: path.clone(), kind: ListedKind::Removed });
        let selection = self.select(&changed.chain(removed).collect::<Vec<_>>(), leave_out)?;
        let contents: HashMap<&[u8], &Change> =
            saved.changed.iter().map(|change| (change.path.as_slice(), change)).collect();
        let taken = selection.take.iter().filter_map(|(path, ..)| contents.get(path.as_str().as_bytes()));
        Ok(Harvest {
            changes: TreeChanges { changed: taken.copied().cloned().collect(), removed: selection.removed },
            left_out: selection.left_out,
            kept: selection.kept,
        })
    }

    /// Decides, and brings the contents.
    pub async fn fetch(
        &self,
        sandbox: &dyn Sandbox,
        listed: &[Listed],
        leave_out: &[String],
    ) -> Result<Harvest, SandboxError> {
        let selection = self.select(listed, leave_out)?;
        let mut changed = Vec::with_capacity(selection.take.len());
        for (path, mode, size) in selection.take {
            let content = sandbox.fetch(path.as_str().as_bytes(), size).await?;
            changed.push(Change { path: path.as_str().into(), mode, content });
        }
        Ok(Harvest {
            changes: TreeChanges { changed, removed: selection.removed },
            left_out: selection.left_out,
            kept: selection.kept,
        })
    }
}
