//! One bare mirror a repository, fetched incrementally: a second run costs a fetch, not a clone.
//!
//! Two processes may share a cache folder: whoever creates or fetches a mirror holds its lock file. Readers
//! need none, since git objects never change once they are there and nothing is ever deleted but references.

use std::{
    fs::{DirBuilder, File},
    num::NonZeroU16,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use git2::{Oid, Repository, StatusOptions};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    engine::{blocking, git_error, io_error, shown},
    fetch::fetch,
    lock::take_lock,
    revision,
    source::{self, Source},
    store::Store,
    transport::{Credential, Limits, Session},
    tree::CommitTree,
};
use crate::{
    domain::{CommitId, RepoId},
    method::ports::SourceError,
};

/// How mirrors are kept and fetched.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of the mirrors; created for this user alone.
    pub cache: PathBuf,
    /// Bytes that one fetch may receive.
    pub max_bytes: u64,
    /// Wall clock of one fetch, and of the wait for another process that fetches the same repository.
    pub max_time: Duration,
    /// Longest silence of a server.
    pub max_silence: Duration,
    /// Commits of each branch that are fetched, counted from its tip; all without it. Not used for folders.
    pub depth: Option<NonZeroU16>,
    /// Sent to its own host only.
    pub credential: Option<Credential>,
}

impl Settings {
    /// At most 4 GiB and 15 minutes a fetch, 60 seconds of silence, full history, no credential.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            cache,
            max_bytes: 4 << 30,
            max_time: Duration::from_secs(15 * 60),
            max_silence: Duration::from_secs(60),
            depth: None,
            credential: None,
        }
    }
}

/// A repository as of the last fetch.
#[derive(Debug, Clone)]
pub struct Mirror {
    pub(super) store: Store,
    pub(super) source: Source,
    pub(super) settings: Settings,
    head: Option<Oid>,
    default_branch: Option<String>,
    repo_id: Option<RepoId>,
}

impl Mirror {
    /// Creates the mirror of `source`, or brings it up to date.
    pub async fn open(source: Source, settings: Settings) -> Result<Self, SourceError> {
        blocking(move |token| {
            create_private(&settings.cache)?;
            match &source {
                Source::Folder(path) => Self::of_folder(path.clone(), settings, token),
                Source::Web(url) => Self::of_web(url.clone(), settings, token),
            }
        })
        .await
    }

    /// As [`Mirror::open`] and [`Mirror::at`], but without a fetch where the mirror has the commit already: a
    /// run that goes on must not depend on the network.
    pub async fn resume(
        source: Source,
        settings: Settings,
        commit: &CommitId,
    ) -> Result<CommitTree, SourceError> {
        if let Source::Web(url) = &source {
            let dir = settings.cache.join(web_name(url, settings.depth));
            let wanted = commit.clone();
            let found = blocking(move |_| {
                let Some(store) = Store::existing(dir) else { return Ok(None) };
                let id = parse(&wanted)?;
                let has_it = store.repository()?.find_commit(id).is_ok();
                if has_it { CommitTree::new(store, id).map(Some) } else { Ok(None) }
            });
            if let Some(tree) = found.await? {
                return Ok(tree);
            }
        }
        Self::open(source, settings).await?.at(Some(commit.as_str())).await
    }

    /// The tree of the commit that `base` names, or of the source's HEAD. `base` is a branch, a tag, or a full
    /// or short commit id.
    pub async fn at(&self, base: Option<&str>) -> Result<CommitTree, SourceError> {
        let mirror = self.clone();
        let base = base.unwrap_or("HEAD").to_owned();
        blocking(move |_| {
            let repository = mirror.references()?;
            let id = revision::resolve(&repository, mirror.head, &base, &mirror.source.shown())?;
            CommitTree::new(mirror.store, id)
        })
        .await
    }

    /// The branch that HEAD of the source names, such as `main`; `None` where HEAD is detached.
    pub fn default_branch(&self) -> Option<&str> {
        self.default_branch.as_deref()
    }

    /// The repository on its web host. For a folder, the one that its `origin` names.
    pub fn repo_id(&self) -> Option<&RepoId> {
        self.repo_id.as_ref()
    }

    /// Whether the web host of [`Mirror::repo_id`] has the commit, so that permalinks to it are true. For a
    /// folder: whether a remote-tracking branch of `origin` reaches it, as of the user's own last fetch.
    pub async fn is_published(&self, commit: &CommitId) -> Result<bool, SourceError> {
        let Source::Folder(path) = &self.source else {
            return Ok(true);
        };
        let (path, id, store) = (path.clone(), parse(commit)?, self.store.clone());
        blocking(move |_| {
            let looking = git_error("looking for the commit in origin's branches");
            let (folder, mirror) = (source::open_folder(&path)?, store.repository()?);
            let mut walk = mirror.revwalk().map_err(&looking)?;
            walk.push(id).map_err(&looking)?;
            for branch in folder.references_glob("refs/remotes/origin/*").map_err(&looking)?.flatten() {
                if let Ok(tip) = branch.peel_to_commit() {
                    walk.hide(tip.id()).map_err(&looking)?;
                }
            }
            // Hiding everything that the branches reach leaves nothing exactly when they reach it.
            Ok(walk.next().is_none())
        })
        .await
    }

    /// Whether files that git follows differ from the folder's commit. Reads the folder only.
    pub async fn has_uncommitted_changes(&self) -> Result<bool, SourceError> {
        let Source::Folder(path) = &self.source else { return Ok(false) };
        let path = path.clone();
        blocking(move |_| {
            let repository = source::open_folder(&path)?;
            if repository.is_bare() {
                return Ok(false);
            }
            let mut options = StatusOptions::new();
            options.include_untracked(false).include_ignored(false).exclude_submodules(true);
            let statuses = repository.statuses(Some(&mut options));
            Ok(!statuses.map_err(git_error("comparing the folder with its commit"))?.is_empty())
        })
        .await
    }

    /// Where branches and tags are looked up.
    fn references(&self) -> Result<Repository, SourceError> {
        match &self.source {
            Source::Folder(path) => source::open_folder(path),
            Source::Web(_) => self.store.repository(),
        }
    }

    fn of_folder(path: PathBuf, settings: Settings, token: &CancellationToken) -> Result<Self, SourceError> {
        let repository = source::open_folder(&path)?;
        let reading = io_error("reading the repository");
        let common = repository.commondir().canonicalize().map_err(&reading)?;
        let name = mirror_name("local", &common.to_string_lossy(), &[&path_name(&path)]);
        let _lock = lock(&settings, &name, token)?;
        let store = Store::create(settings.cache.join(name), Some(common.join("objects")))?;
        store.copy_shallow(&common.join("shallow"))?;
        let head = repository.head().and_then(|head| head.peel_to_commit()).ok().map(|commit| commit.id());
        if head.is_none() && repository.is_empty().unwrap_or(true) {
            return Err(revision::no_head(&repository, &shown(&path.display().to_string())));
        }
        let branch = repository.find_reference("HEAD").ok();
        let branch = branch.and_then(|head| head.symbolic_target().ok().flatten().map(str::to_owned));
        Ok(Self {
            store,
            settings,
            head,
            default_branch: branch.as_deref().and_then(branch_name),
            repo_id: source::origin(&repository),
            source: Source::Folder(path),
        })
    }

    fn of_web(url: Url, settings: Settings, token: &CancellationToken) -> Result<Self, SourceError> {
        let name = web_name(&url, settings.depth);
        let _lock = lock(&settings, &name, token)?;
        let store = Store::create(settings.cache.join(name), None)?;
        let limits = settings.limits();
        let session = Session::new(&url, settings.credential.as_ref(), limits, token)?;
        let fetched = fetch(&store, &url, &session, settings.depth)?;
        Ok(Self {
            store,
            settings,
            head: fetched.head,
            default_branch: fetched.default_branch.as_deref().and_then(branch_name),
            repo_id: source::repo_id(url.as_str()),
            source: Source::Web(url),
        })
    }
}

impl Settings {
    pub(super) fn limits(&self) -> Limits {
        Limits { max_bytes: self.max_bytes, max_time: self.max_time, max_silence: self.max_silence }
    }
}

fn branch_name(reference: &str) -> Option<String> {
    reference.strip_prefix("refs/heads/").map(str::to_owned)
}

pub(super) fn parse(commit: &CommitId) -> Result<Oid, SourceError> {
    Oid::from_str(commit.as_str())
        .map_err(|_| SourceError::Input(format!("commit {commit} has no SHA-1 id; others are not supported")))
}

/// Held while a mirror is created or fetched.
fn lock(settings: &Settings, name: &str, token: &CancellationToken) -> Result<File, SourceError> {
    take_lock(&settings.cache.join(format!("{name}.lock")), settings.max_time, token)
}

/// Mirrors may hold private code.
fn create_private(dir: &Path) -> Result<(), SourceError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.map_err(|error| {
        SourceError::Input(format!("the cache folder {} cannot be created: {error}", dir.display()))
    })
}

fn web_name(url: &Url, depth: Option<NonZeroU16>) -> String {
    let port = url.port().map(|port| format!("_{port}")).unwrap_or_default();
    let host = format!("{}{port}", url.host_str().unwrap_or_default());
    let path = url.path().strip_suffix(".git").unwrap_or(url.path());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let depth = depth.map(|depth| format!(" depth {depth}")).unwrap_or_default();
    mirror_name(&host, &format!("{}://{host}{path}{depth}", url.scheme()), &parts)
}

fn path_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A folder name that people recognise and that no text can bend: the parts with anything odd replaced, and a
/// hash of what it stands for.
fn mirror_name(host: &str, identity: &str, parts: &[&str]) -> String {
    let hash = hex::encode(&Sha256::digest(identity)[..8]);
    let tame = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let mut name: String = host.chars().map(tame).take(60).collect();
    for part in parts {
        name.push('+');
        name.extend(part.chars().map(tame).take(40));
    }
    name.truncate(150); // ASCII alone, so any place is a character's end
    format!("{name}+{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_names_are_readable_and_cannot_be_bent() {
        let name = |text| web_name(&Url::parse(text).unwrap(), None);
        assert!(name("https://github.com/o/n").starts_with("github.com+o+n+"));
        assert_eq!(name("https://github.com/o/n"), name("https://github.com/o/n.git"));
        let others = [
            "https://github.com:444/o/n",
            "https://github.com/o/n/",
            "https://github.com/o+n",
            "https://github.com/o/%2e%2e",
            "http://github.com/o/n",
        ];
        for other in others {
            assert_ne!(name(other), name("https://github.com/o/n"), "{other}");
        }
        assert!(!name("https://github.com/..%2f..%2fetc/x").contains('/'));
        let long = format!("https://github.com/{}", "a/".repeat(500));
        assert!(name(&long).len() < 200);
        let depth = NonZeroU16::new(1);
        assert_ne!(
            web_name(&Url::parse("https://github.com/o/n").unwrap(), depth),
            name("https://github.com/o/n")
        );
    }
}
