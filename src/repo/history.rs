//! Reachable history as packs that agents borrow objects from (`git log`, `git blame`).
//!
//! The packs hold what the base commit reaches and nothing else: no later commit, no other branch. libgit2
//! cannot reuse the deltas of packs it has, so packing a long history takes about a minute. Therefore packs
//! are kept (`kept_packs`) and serve again: for the same commit, and for every later one, which adds only what
//! is new. The first entry of a mirror comes for nothing from its first fetch.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use git2::{ObjectType, Odb, Oid, Repository, Sort};
use tokio_util::sync::CancellationToken;

use super::{
    engine::{check, git_error, io_error},
    kept_packs::{Draft, Entry, Label, entries, packs_in, tidy, total},
    store::Store,
};
use crate::method::ports::{History, SourceError};

/// Packs of one entry, after which a new one starts afresh: every pack slows git down.
const MAX_PACKS: usize = 12;
/// Of the limit, the share that a fresh cut may fill, so that later commits can be added.
const FILL: f64 = 0.9;
/// Rounds of packing less and less before only the base commit is packed.
const MAX_ROUNDS: usize = 4;

/// Packs and the commits at which their history ends.
pub(super) struct Packed {
    pub history: History,
    pub shallow: Vec<Oid>,
}

/// Packs the history of `base` below `into`: all of it where it fits into `max_bytes`, else as many of its
/// newest commits as fit, and at least the base commit itself. Only called by one at a time on a mirror.
pub(super) fn pack(
    store: &Store,
    base: Oid,
    into: &Path,
    max_bytes: u64,
    token: &CancellationToken,
) -> Result<Packed, SourceError> {
    tidy(store)?;
    let packing = Packing { store, repository: store.repository()?, base, max_bytes, token };
    let entry = match packing.grown()? {
        Some(entry) => entry,
        None => packing.fresh()?,
    };
    let copying = io_error("copying the history");
    let target = into.join("pack");
    fs::create_dir_all(&target).map_err(&copying)?;
    for file in entry.packs()?.into_iter().flat_map(|pack| [pack.with_extension("idx"), pack]) {
        // A copy, no link: what a sandbox sees must not be a file that later runs read.
        fs::copy(&file, target.join(file.file_name().unwrap_or_default())).map_err(&copying)?;
    }
    let shallow = entry.label.shallow()?;
    Ok(Packed { history: History { objects: into.to_owned(), note: entry.label.note }, shallow })
}

/// Keeps the packs of a mirror's first fetch as the history of `tip`, where they are that and nothing else.
pub(super) fn adopt(store: &Store, tip: Oid, packs: &[PathBuf]) -> Result<(), SourceError> {
    let reading = git_error("reading the fetched history");
    let draft = Draft::new(store)?;
    draft.link(packs)?;
    let reachable: HashSet<Oid> = commits(&store.repository()?, tip, None)?.into_iter().collect();
    let odb = Odb::new().map_err(&reading)?;
    odb.add_disk_alternate(&draft.objects().to_string_lossy()).map_err(&reading)?;
    let mut found = HashSet::new();
    let each = odb.foreach(|id| {
        if matches!(odb.read_header(*id), Ok((_, ObjectType::Commit))) {
            found.insert(*id);
        }
        true
    });
    each.map_err(reading)?;
    if found == reachable {
        let shallow = store.shallow()?;
        draft.keep(store, label(tip, None, &shallow, &shallow, source_note(&shallow)))?;
    }
    Ok(())
}

struct Packing<'a> {
    store: &'a Store,
    repository: Repository,
    base: Oid,
    max_bytes: u64,
    token: &'a CancellationToken,
}

impl Packing<'_> {
    /// The entry of the nearest ancestor with what is new since then, where that fits. The base itself counts
    /// as an ancestor.
    fn grown(&self) -> Result<Option<Entry>, SourceError> {
        let source_shallow: Vec<String> = self.store.shallow()?.iter().map(Oid::to_string).collect();
        let mut nearest: Option<(usize, Entry)> = None;
        for entry in entries(self.store)? {
            let commit = entry.label.commit()?;
            let packs = entry.packs()?;
            let is_small = total(&packs)? <= self.max_bytes;
            let may_serve = match entry.label.cut_for {
                // Cut to the base commit alone, it may be larger than the limit.
                Some(bytes) => bytes == self.max_bytes && (is_small || commit == self.base),
                None => is_small,
            };
            let fits = may_serve
                && entry.label.source_shallow == source_shallow
                && (commit == self.base || packs.len() < MAX_PACKS)
                && self.is_ancestor(commit);
            if !fits {
                continue;
            }
            let distance = commits(&self.repository, self.base, Some(commit))?.len();
            if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
                nearest = Some((distance, entry));
            }
        }
        let Some((distance, entry)) = nearest else { return Ok(None) };
        if distance == 0 {
            return Ok(Some(entry));
        }
        let shallow = entry.label.shallow()?;
        let (_workshop, view) = self.view(&shallow)?;
        let draft = Draft::new(self.store)?;
        draft.link(&entry.packs()?)?;
        self.write(&view, Some(entry.label.commit()?), &draft)?;
        if total(&draft.packs()?)? > self.max_bytes {
            return Ok(None);
        }
        self.keep(draft, &view, &shallow).map(Some)
    }

    fn is_ancestor(&self, commit: Oid) -> bool {
        commit == self.base || self.repository.graph_descendant_of(self.base, commit).unwrap_or(false)
    }

    /// Packs afresh, with fewer and fewer commits until it fits.
    fn fresh(&self) -> Result<Entry, SourceError> {
        let all = commits(&self.repository, self.base, None)?;
        let bytes_per_object = bytes_per_object(self.store)?;
        let mut kept = all.len();
        let mut round = 0;
        loop {
            let shallow = [self.store.shallow()?, boundary(&self.repository, &all[..kept])?].concat();
            let (_workshop, view) = self.view(&shallow)?;
            // Far too much is not packed to find out.
            let expected = (self.count(&view)? as f64 * bytes_per_object) as u64;
            let bytes = if kept > 1 && expected / 2 > self.max_bytes {
                expected
            } else {
                let draft = Draft::new(self.store)?;
                self.write(&view, None, &draft)?;
                let bytes = total(&draft.packs()?)?;
                if bytes <= self.max_bytes || kept == 1 {
                    return self.keep(draft, &view, &shallow);
                }
                bytes
            };
            // A tree that is large by itself never fits.
            round += 1;
            let share = if round < MAX_ROUNDS { FILL * self.max_bytes as f64 / bytes as f64 } else { 0.0 };
            kept = ((kept as f64 * share) as usize).clamp(1, kept - 1);
        }
    }

    /// The mirror's objects as a repository of their own whose history ends at `shallow`, for as long as the
    /// folder lives.
    fn view(&self, shallow: &[Oid]) -> Result<(tempfile::TempDir, Repository), SourceError> {
        let workshop = tempfile::tempdir().map_err(io_error("preparing the history"))?;
        let view = self.store.view(workshop.path(), shallow)?;
        Ok((workshop, view))
    }

    fn count(&self, view: &Repository) -> Result<usize, SourceError> {
        let packing = git_error("packing the history");
        let mut builder = view.packbuilder().map_err(&packing)?;
        builder.insert_walk(&mut walk(view, self.base, None)?).map_err(&packing)?;
        Ok(builder.object_count())
    }

    /// Packs what the base reaches in `view` and `without` does not.
    fn write(&self, view: &Repository, without: Option<Oid>, into: &Draft) -> Result<(), SourceError> {
        let packing = git_error("packing the history");
        let mut builder = view.packbuilder().map_err(&packing)?;
        builder.set_threads(0);
        let token = self.token.clone();
        builder.set_progress_callback(move |_, _, _| !token.is_cancelled()).map_err(&packing)?;
        builder.insert_walk(&mut walk(view, self.base, without)?).map_err(&packing)?;
        let written = builder.write(&into.objects().join("pack"), 0o644);
        check(self.token)?;
        written.map_err(packing)
    }

    fn keep(&self, draft: Draft, view: &Repository, shallow: &[Oid]) -> Result<Entry, SourceError> {
        let kept = commits(view, self.base, None)?;
        let all = commits(&self.repository, self.base, None)?.len();
        let source_shallow = self.store.shallow()?;
        let label = if kept.len() == all {
            label(self.base, None, &source_shallow, &source_shallow, source_note(&source_shallow))
        } else {
            let seen: HashSet<&Oid> = kept.iter().collect();
            let ends: Vec<Oid> = shallow.iter().filter(|id| seen.contains(id)).copied().collect();
            let note = cut_note(view, &kept, all)?;
            label(self.base, Some(self.max_bytes), &source_shallow, &ends, Some(note))
        };
        draft.keep(self.store, label)
    }
}

fn label(
    commit: Oid,
    cut_for: Option<u64>,
    source_shallow: &[Oid],
    shallow: &[Oid],
    note: Option<String>,
) -> Label {
    let text = |ids: &[Oid]| ids.iter().map(Oid::to_string).collect();
    let (source_shallow, shallow) = (text(source_shallow), text(shallow));
    Label { commit: commit.to_string(), cut_for, source_shallow, shallow, note }
}

fn source_note(shallow: &[Oid]) -> Option<String> {
    (!shallow.is_empty()).then(|| "git history is cut off: the source is a shallow clone".into())
}

fn cut_note(view: &Repository, kept: &[Oid], all: usize) -> Result<String, SourceError> {
    let oldest = kept.last().map(|id| view.find_commit(*id)).transpose();
    let oldest =
        oldest.map_err(git_error("walking the history"))?.map_or(0, |commit| commit.time().seconds());
    let date = jiff::Timestamp::from_second(oldest).unwrap_or_default().strftime("%Y-%m-%d");
    let kept = kept.len();
    Ok(format!(
        "git history is cut off to save space: it holds {kept} of {all} commits, back to {date}, the oldest of which seem to add whole files"
    ))
}

/// Commits that `base` reaches and `without` does not, newest first by commit date.
fn commits(repository: &Repository, base: Oid, without: Option<Oid>) -> Result<Vec<Oid>, SourceError> {
    let walking = git_error("walking the history");
    walk(repository, base, without)?.collect::<Result<_, _>>().map_err(walking)
}

fn walk(repository: &Repository, base: Oid, without: Option<Oid>) -> Result<git2::Revwalk<'_>, SourceError> {
    let walking = git_error("walking the history");
    let mut walk = repository.revwalk().map_err(&walking)?;
    walk.set_sorting(Sort::TIME).map_err(&walking)?;
    walk.push(base).map_err(&walking)?;
    if let Some(commit) = without {
        walk.hide(commit).map_err(&walking)?;
    }
    Ok(walk)
}

/// Those of `kept` that have a parent which is not kept.
fn boundary(repository: &Repository, kept: &[Oid]) -> Result<Vec<Oid>, SourceError> {
    let set: HashSet<&Oid> = kept.iter().collect();
    let mut ends = Vec::new();
    for id in kept {
        let commit = repository.find_commit(*id).map_err(git_error("walking the history"))?;
        if commit.parent_ids().any(|parent| !set.contains(&parent)) {
            ends.push(*id);
        }
    }
    Ok(ends)
}

/// What an object takes in the packs that there are, on average.
fn bytes_per_object(store: &Store) -> Result<f64, SourceError> {
    let (mut bytes, mut objects) = (0, 0);
    for dir in store.objects_folders() {
        for pack in packs_in(&dir.join("pack"))? {
            let index = fs::metadata(pack.with_extension("idx")).map_or(0, |meta| meta.len());
            // An index of version 2 is a header, a table of 256 numbers, 28 bytes an object, and two hashes.
            objects += index.saturating_sub(8 + 1024 + 40) / 28;
            bytes += total(&[pack])?;
        }
    }
    Ok(if objects == 0 { 0.0 } else { bytes as f64 / objects as f64 })
}
