//! Reachable history as packs that agents borrow objects from (`git log`, `git blame`).
//!
//! A pack holds what the base commit reaches and nothing else: no later commit, no other branch. libgit2
//! cannot reuse the deltas of packs it has, so packing a long history takes about a minute. Therefore packs
//! are kept beside the mirror, an *entry* a base commit, and serve again: for the same commit, and for every
//! later one, which adds only what is new. The first entry of a mirror comes for nothing from its first fetch.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use git2::{ObjectType, Odb, Oid, Repository, Sort};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    engine::{check, git_error, io_error},
    store::Store,
};
use crate::method::ports::{History, SourceError};

/// Entries that a mirror keeps; the oldest go first.
const MAX_ENTRIES: usize = 8;
/// The file that makes a folder of packs an entry.
const LABEL: &str = "label.json";
/// Packs of one entry, after which a new one starts afresh: every pack slows git down.
const MAX_PACKS: usize = 12;

/// What an entry says of itself, beside its packs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    /// Where the source's own history was cut off when this was packed.
    source_shallow: Vec<String>,
    /// Where the packed history is cut off: commits whose parents are not there.
    shallow: Vec<String>,
    /// Said to agents.
    note: Option<String>,
}

/// Packs and the commits at which their history ends.
pub(super) struct Packed {
    pub history: History,
    pub shallow: Vec<Oid>,
}

struct Entry {
    dir: PathBuf,
    label: Label,
}

impl Entry {
    fn open(dir: PathBuf) -> Option<Self> {
        let label = fs::read(dir.join(LABEL)).ok()?;
        Some(Self { dir, label: serde_json::from_slice(&label).ok()? })
    }

    fn packs(&self) -> Result<Vec<PathBuf>, SourceError> {
        packs_in(&self.dir.join("pack"))
    }
}

/// Packs the history of `base` below `into`: all of it where it fits into `max_bytes`, else as many of its
/// newest commits as fit, and at least the base commit itself.
pub(super) fn pack(
    store: &Store,
    base: Oid,
    into: &Path,
    max_bytes: u64,
    token: &CancellationToken,
) -> Result<Packed, SourceError> {
    sweep(store)?;
    let entry = match entry_for(store, base, max_bytes)? {
        Some(entry) => entry,
        None => build(store, base, max_bytes, token)?,
    };
    let copying = io_error("copying the history");
    let target = into.join("pack");
    fs::create_dir_all(&target).map_err(&copying)?;
    for pack in entry.packs()? {
        for file in [pack.with_extension("idx"), pack] {
            // A copy, no link: what a sandbox sees must not be a file that later runs read.
            let name = file.file_name().unwrap_or_default();
            fs::copy(&file, target.join(name)).map_err(&copying)?;
        }
    }
    prune(store)?;
    let shallow = entry.label.shallow.iter().map(|id| Oid::from_str(id)).collect::<Result<_, _>>();
    Ok(Packed {
        history: History { objects: into.to_owned(), note: entry.label.note },
        shallow: shallow.map_err(git_error("reading the packed history"))?,
    })
}

/// Makes the packs of a mirror's first fetch an entry, where they are the history of `tip` exactly.
pub(super) fn adopt(store: &Store, tip: Oid, packs: &[PathBuf]) -> Result<(), SourceError> {
    let adopting = git_error("reading the fetched history");
    let label = complete_label(store)?;
    let draft = Draft::new(store)?;
    draft.link(packs)?;
    let repository = store.repository()?;
    let reachable = commits(&repository, tip, None)?.into_iter().collect::<HashSet<_>>();
    let odb = Odb::new().map_err(&adopting)?;
    let path =
        draft.0.path().to_str().ok_or_else(|| SourceError::Git("the cache folder is not UTF-8".into()))?;
    odb.add_disk_alternate(path).map_err(&adopting)?;
    let (mut found, mut strange) = (0, false);
    odb.foreach(|id| {
        if matches!(odb.read_header(*id), Ok((_, ObjectType::Commit))) {
            found += 1;
            strange |= !reachable.contains(id);
        }
        !strange
    })
    .or_else(|error| if strange { Ok(()) } else { Err(adopting(error)) })?;
    if !strange && found == reachable.len() {
        draft.keep(store, &tip.to_string(), &label)?;
    }
    Ok(())
}

/// The entry of `base`, grown from that of an ancestor where there is one.
fn entry_for(store: &Store, base: Oid, max_bytes: u64) -> Result<Option<Entry>, SourceError> {
    let cut = Entry::open(folder(store).join(cut_name(base, max_bytes)));
    let source_shallow = complete_label(store)?.source_shallow;
    let is_current = |entry: &Entry| entry.label.source_shallow == source_shallow;
    if let Some(cut) = cut.filter(is_current) {
        return Ok(Some(cut));
    }
    let whole = Entry::open(folder(store).join(base.to_string())).filter(is_current);
    match whole {
        Some(whole) if total(&whole.packs()?)? <= max_bytes => Ok(Some(whole)),
        _ => Ok(None),
    }
}

fn build(store: &Store, base: Oid, max_bytes: u64, token: &CancellationToken) -> Result<Entry, SourceError> {
    let repository = store.repository()?;
    let draft = Draft::new(store)?;
    let label = complete_label(store)?;
    if let Some((ancestor, packs)) = nearest_ancestor(store, &repository, base, &label)? {
        draft.link(&packs)?;
        draft.add(&repository, base, Some(ancestor), token)?;
        if total(&draft.packs()?)? <= max_bytes {
            return draft.keep(store, &base.to_string(), &label);
        }
    }
    let all = commits(&repository, base, None)?;
    let mut kept = all.len();
    for attempt in 0.. {
        let boundary = boundary(&repository, &all[..kept])?;
        let workshop = tempfile::tempdir_in(folder(store)).map_err(io_error("preparing the history"))?;
        let shallow = [store.shallow()?, boundary].concat();
        let view = store.view(workshop.path(), &shallow)?;
        let draft = Draft::new(store)?;
        let objects = draft.count(&view, base)?;
        let expected = (objects as f64 * bytes_per_object(store)?) as u64;
        let bytes = if kept > 1 && expected / 2 > max_bytes {
            expected
        } else {
            draft.add(&view, base, None, token)?;
            total(&draft.packs()?)?
        };
        if bytes <= max_bytes || kept == 1 {
            if kept == all.len() {
                return draft.keep(store, &base.to_string(), &label);
            }
            let seen = commits(&view, base, None)?.into_iter().collect::<HashSet<_>>();
            let ends = shallow.iter().filter(|id| seen.contains(*id)).map(Oid::to_string);
            let note = cut_note(&repository, &all, kept)?;
            let label = Label { shallow: ends.collect(), note: Some(note), ..label };
            return draft.keep(store, &cut_name(base, max_bytes), &label);
        }
        // A tree that is large by itself never fits: do not pack it over and over.
        let share = if attempt < 4 { 0.9 * max_bytes as f64 / bytes as f64 } else { 0.0 };
        kept = ((kept as f64 * share) as usize).clamp(1, kept - 1);
    }
    unreachable!("each round keeps fewer commits, and one commit ends it")
}

/// Of the whole entries, the one whose commit leads to `base` over the fewest commits.
fn nearest_ancestor(
    store: &Store,
    repository: &Repository,
    base: Oid,
    label: &Label,
) -> Result<Option<(Oid, Vec<PathBuf>)>, SourceError> {
    let mut best: Option<(usize, Oid, Vec<PathBuf>)> = None;
    for entry in entries(store)? {
        let name = entry.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(commit) = Oid::from_str(&name) else { continue };
        let packs = entry.packs()?;
        let fits = name.len() == 40 && entry.label == *label && packs.len() < MAX_PACKS;
        if !fits || !repository.graph_descendant_of(base, commit).unwrap_or(false) {
            continue;
        }
        let distance = commits(repository, base, Some(commit))?.len();
        if best.as_ref().is_none_or(|(nearest, ..)| distance < *nearest) {
            best = Some((distance, commit, packs));
        }
    }
    Ok(best.map(|(_, commit, packs)| (commit, packs)))
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

fn cut_note(repository: &Repository, all: &[Oid], kept: usize) -> Result<String, SourceError> {
    let oldest = repository.find_commit(all[kept - 1]).map_err(git_error("walking the history"))?;
    let date = jiff::Timestamp::from_second(oldest.time().seconds()).unwrap_or_default();
    Ok(format!(
        "git history is cut off to save space: it holds {kept} of {} commits, back to {}",
        all.len(),
        date.strftime("%Y-%m-%d")
    ))
}

fn complete_label(store: &Store) -> Result<Label, SourceError> {
    let shallow: Vec<String> = store.shallow()?.iter().map(Oid::to_string).collect();
    let note =
        (!shallow.is_empty()).then(|| "git history is cut off: the source is a shallow clone".to_owned());
    Ok(Label { source_shallow: shallow.clone(), shallow, note })
}

/// An entry in the making.
struct Draft(tempfile::TempDir);

impl Draft {
    fn new(store: &Store) -> Result<Self, SourceError> {
        let preparing = io_error("preparing the history");
        fs::create_dir_all(folder(store)).map_err(&preparing)?;
        let dir = tempfile::tempdir_in(folder(store)).map_err(&preparing)?;
        fs::create_dir(dir.path().join("pack")).map_err(&preparing)?;
        Ok(Self(dir))
    }

    fn packs(&self) -> Result<Vec<PathBuf>, SourceError> {
        packs_in(&self.0.path().join("pack"))
    }

    fn link(&self, packs: &[PathBuf]) -> Result<(), SourceError> {
        for pack in packs {
            for file in [pack.with_extension("idx"), pack.clone()] {
                let target = self.0.path().join("pack").join(file.file_name().unwrap_or_default());
                fs::hard_link(&file, target).map_err(io_error("keeping the packed history"))?;
            }
        }
        Ok(())
    }

    fn count(&self, view: &Repository, base: Oid) -> Result<usize, SourceError> {
        let packing = git_error("packing the history");
        let mut builder = view.packbuilder().map_err(&packing)?;
        builder.insert_walk(&mut walk(view, base, None)?).map_err(&packing)?;
        Ok(builder.object_count())
    }

    /// Packs what `base` reaches and `without` does not.
    fn add(
        &self,
        repository: &Repository,
        base: Oid,
        without: Option<Oid>,
        token: &CancellationToken,
    ) -> Result<(), SourceError> {
        let packing = git_error("packing the history");
        let mut builder = repository.packbuilder().map_err(&packing)?;
        builder.set_threads(0);
        let going_on = token.clone();
        builder.set_progress_callback(move |_, _, _| !going_on.is_cancelled()).map_err(&packing)?;
        builder.insert_walk(&mut walk(repository, base, without)?).map_err(&packing)?;
        let written = builder.write(&self.0.path().join("pack"), 0o644);
        check(token)?;
        written.map_err(packing)
    }

    /// Makes it an entry, at once and as a whole.
    fn keep(self, store: &Store, name: &str, label: &Label) -> Result<Entry, SourceError> {
        let keeping = io_error("keeping the packed history");
        let text = serde_json::to_vec(label).expect("strings are valid JSON");
        fs::write(self.0.path().join(LABEL), text).map_err(&keeping)?;
        let dir = folder(store).join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(&keeping)?;
        }
        fs::rename(self.0.keep(), &dir).map_err(keeping)?;
        Ok(Entry { dir, label: label.clone() })
    }
}

fn folder(store: &Store) -> PathBuf {
    store.dir().join("history")
}

fn cut_name(base: Oid, max_bytes: u64) -> String {
    format!("{base}-{max_bytes}")
}

fn entries(store: &Store) -> Result<Vec<Entry>, SourceError> {
    let reading = io_error("reading the packed histories");
    let mut found = Vec::new();
    for dir in fs::read_dir(folder(store)).map_err(&reading)? {
        found.extend(Entry::open(dir.map_err(&reading)?.path()));
    }
    Ok(found)
}

fn prune(store: &Store) -> Result<(), SourceError> {
    let mut all = entries(store)?;
    all.sort_by_key(|entry| fs::metadata(entry.dir.join(LABEL)).and_then(|m| m.modified()).ok());
    let excess = all.len().saturating_sub(MAX_ENTRIES);
    for entry in &all[..excess] {
        fs::remove_dir_all(&entry.dir).map_err(io_error("dropping an old packed history"))?;
    }
    Ok(())
}

/// Removes drafts of a process that was killed. Whoever packs holds the lock, so none is in use.
fn sweep(store: &Store) -> Result<(), SourceError> {
    let sweeping = io_error("removing unfinished histories");
    fs::create_dir_all(folder(store)).map_err(&sweeping)?;
    for dir in fs::read_dir(folder(store)).map_err(&sweeping)? {
        let dir = dir.map_err(&sweeping)?.path();
        if !dir.join(LABEL).exists() {
            fs::remove_dir_all(dir).map_err(&sweeping)?;
        }
    }
    Ok(())
}

/// The `.pack` files of a folder, in the order of their names.
pub(super) fn packs_in(dir: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let reading = io_error("reading packs");
    let mut packs = Vec::new();
    for file in fs::read_dir(dir).map_err(&reading)? {
        let path = file.map_err(&reading)?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            packs.push(path);
        }
    }
    packs.sort();
    Ok(packs)
}

fn total(packs: &[PathBuf]) -> Result<u64, SourceError> {
    let sizes = packs.iter().map(|pack| fs::metadata(pack).map(|meta| meta.len()));
    sizes.sum::<Result<u64, _>>().map_err(io_error("reading packs"))
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
