//! What of a Resolver's workspace becomes the patch (S-21 to S-26).
//!
//! The workspace was in the hands of a model. Of its changes only those are taken that any file system can
//! hold, that no checkout can be tricked by, and that somebody would want to review; all others are listed
//! with the reason. What is not taken leaves the base commit's entry as it is; where it stands in place of a
//! folder, all entries of that folder.
//!
//! Submodules are not among the entries that come in here: they are never filled, and the tree builder keeps
//! them as they are.

mod left_out;
mod names;
mod rubbish;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    domain::{FileMode, LeftOut, RepoPath, TreePath},
    gate::shown,
    method::ports::{Listed, ListedKind, TreeEntry},
};
use left_out::LeftOuts;
use names::Names;
use rubbish::Rubbish;

/// How often files that stay after all may make others collide, before no folder is taken for replaced.
const MOST_LOOKS: usize = 8;
const REPLACED: &str = "removed, but what stands in place of its folder is left out";

/// How much may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HarvestLimits {
    /// Bytes of all files together. Default 50,000,000.
    pub total_bytes: u64,
    /// Bytes of one file; a larger one is left out. Default 10,000,000.
    pub file_bytes: u64,
    /// Changed and removed entries. Default 5,000.
    pub entries: usize,
    /// Parts of a path; a deeper one is left out. Default 50.
    pub depth: usize,
}

impl Default for HarvestLimits {
    fn default() -> Self {
        Self { total_bytes: 50_000_000, file_bytes: 10_000_000, entries: 5_000, depth: 50 }
    }
}

/// The changes that make no patch as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HarvestError {
    #[error("{count} entries of the workspace changed, more than the {limit} that a patch may have")]
    TooManyEntries { count: usize, limit: usize },
    #[error("the changed files have {}, more than the {} that a patch may have", shown::size(*.bytes), shown::size(*.limit))]
    TooManyBytes { bytes: u64, limit: u64 },
    #[error("every file of the repository was removed, and nothing put in its place")]
    NothingLeft,
}

impl HarvestError {
    /// The stable name that `run.json` shows.
    pub fn class(self) -> &'static str {
        match self {
            Self::TooManyEntries { .. } | Self::TooManyBytes { .. } => "patch_too_large",
            Self::NothingLeft => "patch_removes_all",
        }
    }
}

/// What is fetched from the workspace, and what the pull request says of the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// New and changed files with their sizes in bytes, sorted by path.
    pub take: Vec<(RepoPath, FileMode, u64)>,
    /// Entries of the base commit that are gone, sorted.
    pub removed: Vec<TreePath>,
    /// What is not taken, much of a kind made one line.
    pub left_out: Vec<LeftOut>,
    /// What the Resolver asked to leave out but may not: it drops new files only.
    pub kept: Vec<LeftOut>,
}

/// Whether nobody would miss it in a patch: what the repository ignores, caches, and left-overs of tools.
pub fn is_rubbish(left_out: &LeftOut) -> bool {
    rubbish::REASONS.contains(&left_out.reason.as_str())
}

/// Decides on each listed entry. `base` is the base commit's tree, `ignore_files` are its `.gitignore` files
/// with their content, `leave_out` is what the Resolver names.
pub fn select(
    listed: &[Listed],
    base: &[TreeEntry],
    ignore_files: &[(RepoPath, Vec<u8>)],
    leave_out: &[String],
    limits: &HarvestLimits,
) -> Result<Selection, HarvestError> {
    let in_base: HashMap<&[u8], FileMode> =
        base.iter().map(|entry| (entry.path.as_slice(), entry.mode)).collect();
    // Sorted, and one for each path.
    let listed: BTreeMap<&[u8], ListedKind> =
        listed.iter().filter(|one| !is_git(&one.path)).map(|one| (one.path.as_slice(), one.kind)).collect();
    let mut gone: HashSet<&[u8]> = listed
        .iter()
        .filter(|(path, kind)| **kind == ListedKind::Removed && in_base.contains_key(**path))
        .map(|(path, _)| *path)
        .collect();
    let mut rubbish = Rubbish::new(base, ignore_files);
    for look in 1.. {
        let mut asked = Asked::new(leave_out);
        let (mut selection, mut refused) =
            choose(&listed, base, &in_base, &gone, &mut rubbish, &mut asked, limits);
        if look >= MOST_LOOKS {
            let stands = listed.iter().filter(|(_, kind)| **kind != ListedKind::Removed);
            refused.extend(stands.map(|(path, _)| *path));
        }
        // Files that stay after all have names, with which others may collide: look again.
        let before = gone.len();
        gone.retain(|path| standing_above(path, &refused).is_none());
        if gone.len() == before {
            selection.removed = gone.into_iter().map(<[u8]>::to_vec).collect();
            selection.removed.sort();
            selection.kept = asked.into_kept();
            check_totals(&selection, base, limits)?;
            return Ok(selection);
        }
    }
    unreachable!("after enough looks nothing is gone from below anything that stands")
}

/// What is taken and what is left out when `gone` goes; and the paths where something stands that is left out.
fn choose<'a>(
    listed: &BTreeMap<&'a [u8], ListedKind>,
    base: &[TreeEntry],
    in_base: &HashMap<&[u8], FileMode>,
    gone: &HashSet<&[u8]>,
    rubbish: &mut Rubbish,
    asked: &mut Asked<'_>,
    limits: &HarvestLimits,
) -> (Selection, HashSet<&'a [u8]>) {
    let mut names =
        Names::new(base.iter().map(|entry| entry.path.as_slice()).filter(|path| !gone.contains(path)));
    let mut left_out = LeftOuts::default();
    let mut refused: HashSet<&[u8]> = HashSet::new();
    let mut selection = Selection::default();
    for (&path, &kind) in listed {
        let base_mode = in_base.get(path).copied();
        if base_mode.is_none() && kind != ListedKind::Removed {
            if let Some((top, reason)) = rubbish.of(path) {
                left_out.below(top, path, reason);
                refused.insert(path);
                continue;
            }
            if asked.names(path) {
                left_out.one(path, "the agent left it out");
                refused.insert(path);
                continue;
            }
        }
        let admitted = match kind {
            ListedKind::Removed => {
                if gone.contains(path) {
                    asked.keep(path);
                } else if base_mode.is_some() {
                    // What stands above a path comes before it.
                    left_out.below(standing_above(path, &refused).unwrap_or(path), path, REPLACED);
                }
                continue;
            }
            ListedKind::Special => Err("a pipe, socket or device".to_owned()),
            ListedKind::Changed { mode, size } => admit(path, mode, size, base_mode, &mut names, limits)
                .map(|valid| selection.take.push((valid, mode, size))),
        };
        match admitted {
            Ok(()) if base_mode.is_some() => asked.keep(path),
            Ok(()) => {}
            Err(reason) => {
                left_out.one(path, &reason);
                refused.insert(path);
            }
        }
    }
    selection.left_out = left_out.into_list();
    (selection, refused)
}

/// The uppermost folder of the path that is none in the workspace, but one of `refused`.
fn standing_above<'a>(path: &'a [u8], refused: &HashSet<&[u8]>) -> Option<&'a [u8]> {
    names::folders(path).find(|folder| refused.contains(folder))
}

/// The path of a change that may be taken, else why not.
fn admit(
    path: &[u8],
    mode: FileMode,
    size: u64,
    base_mode: Option<FileMode>,
    names: &mut Names,
    limits: &HarvestLimits,
) -> Result<RepoPath, String> {
    let valid = RepoPath::from_bytes(path).map_err(|invalid| invalid.reason.to_owned())?;
    if path.split(|byte| *byte == b'/').count() > limits.depth {
        return Err(format!("it is nested more than {} deep", limits.depth));
    }
    if mode == FileMode::Symlink {
        let age = if base_mode.is_some() { "changed" } else { "new" };
        return Err(format!("a {age} symbolic link"));
    }
    if size > limits.file_bytes {
        let (size, limit) = (shown::size(size), shown::size(limits.file_bytes));
        return Err(format!("{size}, more than the {limit} that a file may have"));
    }
    if base_mode.is_none() {
        names.add(&valid)?;
    }
    Ok(valid)
}

fn check_totals(
    selection: &Selection,
    base: &[TreeEntry],
    limits: &HarvestLimits,
) -> Result<(), HarvestError> {
    let count = selection.take.len() + selection.removed.len();
    let bytes = selection.take.iter().fold(0u64, |sum, (_, _, size)| sum.saturating_add(*size));
    if selection.take.is_empty() && !base.is_empty() && selection.removed.len() == base.len() {
        return Err(HarvestError::NothingLeft);
    }
    if count > limits.entries {
        return Err(HarvestError::TooManyEntries { count, limit: limits.entries });
    }
    if bytes > limits.total_bytes {
        return Err(HarvestError::TooManyBytes { bytes, limit: limits.total_bytes });
    }
    Ok(())
}

/// S-23: an agent's own repository is not part of its work.
fn is_git(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b".git")
}

/// What the Resolver asked to leave out: files, or folders with all in them.
struct Asked<'a> {
    paths: Vec<&'a str>,
    kept: BTreeMap<&'a str, usize>,
}

impl<'a> Asked<'a> {
    fn new(leave_out: &'a [String]) -> Self {
        let tidy = |path: &'a String| {
            let path = path.trim();
            let path = path.strip_prefix("/workspace/").or(path.strip_prefix("./")).unwrap_or(path);
            path.trim_end_matches('/')
        };
        let paths = leave_out.iter().map(tidy).filter(|path| !path.is_empty()).collect();
        Self { paths, kept: BTreeMap::new() }
    }

    fn find(&self, path: &[u8]) -> Option<&'a str> {
        let covers = |asked: &&&str| {
            path.strip_prefix(asked.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.paths.iter().find(covers).copied()
    }

    fn names(&self, path: &[u8]) -> bool {
        self.find(path).is_some()
    }

    /// Notes a change to a file of the base commit that was asked to be left out.
    fn keep(&mut self, path: &[u8]) {
        if let Some(asked) = self.find(path) {
            *self.kept.entry(asked).or_default() += 1;
        }
    }

    fn into_kept(self) -> Vec<LeftOut> {
        let kept = |(path, count): (&str, usize)| LeftOut {
            path: shown::path(path.as_bytes()),
            reason: match count {
                1 => "only new files can be left out; its change is part of the patch".to_owned(),
                _ => format!("only new files can be left out; {count} changes in it are part of the patch"),
            },
        };
        self.kept.into_iter().map(kept).collect()
    }
}

#[cfg(test)]
mod tests;
