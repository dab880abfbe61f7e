//! Where a repository comes from: a folder on this machine, or an https address (S-53).

use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};
use url::Url;

use super::{
    border,
    engine::{blocking, init, shown},
};
use crate::{
    domain::{RepoId, is_loopback},
    method::ports::SourceError,
};

/// A source that may be read. `http` is taken for loopback hosts only, which tests use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder that holds a git repository: a work tree, a linked work tree, or a bare repository.
    Folder(PathBuf),
    /// Without user, password, query, fragment, or a slash at its end.
    Web(Url),
}

impl Source {
    /// Takes what a user typed. Whether it exists matters only for what looks like an address, too.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let Some((scheme, _)) = text.split_once("://") else {
            return Self::folder(text);
        };
        let refuse = |why: &str| Err(SourceError::Input(why.to_owned()));
        let Ok(mut url) = Url::parse(text) else {
            return refuse("the repository's address is not a URL; it looks like https://host/owner/name");
        };
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            "file" => {
                return match url.to_file_path() {
                    Ok(path) => Ok(Self::Folder(path)),
                    Err(()) => refuse("the repository's file:// address names no folder of this machine"),
                };
            }
            _ => {
                return refuse(&format!(
                    "cannot read a repository by {}://; give a folder or an https:// address",
                    shown(scheme)
                ));
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            // Its text must not be repeated: it may hold a secret.
            return refuse(
                "the repository's address holds a user name or password; leave them out and give the token in GITHUB_TOKEN",
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("the repository's address must end with its path, without '?' or '#'");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.is_empty() {
            return refuse("the repository's address has no path; it looks like https://host/owner/name");
        }
        url.set_path(&path);
        Ok(Self::Web(url))
    }

    fn folder(text: &str) -> Result<Self, SourceError> {
        if text.is_empty() {
            return Err(SourceError::Input("it is empty; give a folder or an https:// address".into()));
        }
        if Path::new(text).exists() {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        // What git takes for ssh: `host:path` with no slash before the colon.
        if text.split_once(':').is_some_and(|(host, _)| !host.contains('/')) {
            let same = repo_id(text).map(|repo| format!(", such as {}", shown(&repo.to_string())));
            return Err(SourceError::Input(format!(
                "{} is an ssh address; give a folder or an https:// address{}",
                shown(text),
                same.unwrap_or_default()
            )));
        }
        if let Some(repo) = on_github(text) {
            let (text, repo) = (shown(text), shown(&repo.to_string()));
            return Err(SourceError::Input(format!("there is no folder {text}; did you mean {repo}?")));
        }
        Ok(Self::Folder(PathBuf::from(text)))
    }

    /// Looks whether a folder holds a repository that can be read. An address is not asked.
    pub async fn look(&self) -> Result<(), SourceError> {
        let Self::Folder(path) = self else { return Ok(()) };
        let path = path.clone();
        blocking(move |_| open_folder(&path).map(drop)).await
    }

    /// What errors call it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Folder(path) => shown(&path.display().to_string()),
            Self::Web(url) => shown(url.as_str()),
        }
    }
}

/// What people write for a repository on GitHub: `owner/name` or `github.com/owner/name`.
fn on_github(text: &str) -> Option<RepoId> {
    let path = text.strip_prefix("github.com/").unwrap_or(text);
    let (owner, name) = path.split_once('/')?;
    let folder = owner.is_empty() || owner.starts_with(['.', '~']) || name.contains('/');
    (!folder).then(|| RepoId::from_url(&format!("https://github.com/{path}")).ok()).flatten()
}

/// Opens the repository in exactly this folder, for reading. Folders above it are not searched: they may be
/// somebody else's.
pub(super) fn open_folder(path: &Path) -> Result<Repository, SourceError> {
    init();
    let shown_path = shown(&path.display().to_string());
    if !path.is_dir() {
        return Err(SourceError::Input(format!(
            "there is no folder {shown_path}; give a folder that holds a git repository, or an https:// address"
        )));
    }
    border::look(path)?;
    Repository::open(path).map_err(|error| {
        SourceError::Input(if error.code() == ErrorCode::NotFound {
            format!(
                "{shown_path} is not a git repository (nor are the folders above it looked at); give the folder that holds '.git'"
            )
        } else {
            format!(
                "the git repository in {shown_path} cannot be read: {}; partial clones, reftable and SHA-256 repositories are not supported",
                shown(error.message())
            )
        })
    })
}

/// The repository that `origin` names, where it lies on a GitHub or looks like it. ssh addresses count: they
/// are only taken apart, never connected to.
pub(super) fn origin(repository: &Repository) -> Option<RepoId> {
    let config = repository.config().ok()?.snapshot().ok()?;
    repo_id(config.get_str("remote.origin.url").ok()?)
}

/// `https://host/owner/name`, `ssh://git@host/owner/name` and `git@host:owner/name`, all with or without `.git`.
pub(super) fn repo_id(address: &str) -> Option<RepoId> {
    if let Ok(url) = Url::parse(address)
        && matches!(url.scheme(), "ssh" | "git+ssh" | "ssh+git")
    {
        return RepoId::from_url(&format!("https://{}{}", url.host_str()?, url.path())).ok();
    }
    if address.contains("://") {
        let mut url = Url::parse(address).ok()?;
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
        return RepoId::from_url(url.as_str()).ok();
    }
    let (host, path) = address.split_once(':')?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if host.is_empty() || host.contains('/') {
        return None;
    }
    RepoId::from_url(&format!("https://{host}/{}", path.trim_start_matches('/'))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_53_only_folders_and_https_are_sources() {
        for bad in [
            "ssh://git@github.com/a/b",
            "git://github.com/a/b",
            "git@github.com:a/b.git",
            "http://github.com/a/b",
            "http://127.0.0.1.example.com/a/b",
            "http://evillocalhost/a/b",
            "http://x.localhost/a",
            "http://localhost.example.com/a/b",
            "ext::sh -c id",
            "ftp://github.com/a/b",
            "https://github.com",
            "https://github.com/a/b?x=1",
            "https://github.com/a/b#x",
            "file://elsewhere/a",
            "https://",
        ] {
            assert!(matches!(Source::parse(bad), Err(SourceError::Input(_))), "{bad:?} was taken");
        }
        for good in [
            "https://github.com/a/b.git",
            "https://gitlab.example/a/b/c",
            "http://localhost:80/a",
            "http://[::1]:8/a",
            "http://127.8.8.8/a",
        ] {
            assert!(matches!(Source::parse(good), Ok(Source::Web(_))), "{good:?} was refused");
        }
        for folder in ["../x", "/srv/x", "file:///srv/x", "."] {
            assert!(matches!(Source::parse(folder), Ok(Source::Folder(_))), "{folder:?} was refused");
        }
    }

    #[test]
    fn an_address_without_its_https_is_told_with_it() {
        for text in ["git@github.com:o/n.git", "github.com:o/n", "github.com/o/n", "o/n", "o/n.git"] {
            let error = Source::parse(text).unwrap_err().to_string();
            assert!(error.contains("https://github.com/o/n"), "{text}: {error}");
        }
        for folder in ["./o/n", "../n", "/o/n", "a/b/c", "n", "src/repo"] {
            assert_eq!(Source::parse(folder).unwrap(), Source::Folder(folder.into()));
        }
        assert!(Source::parse("").unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn s_40_an_address_with_a_secret_is_refused_and_not_repeated() {
        for text in ["https://x:hunter2@github.com/a/b", "https://hunter2@github.com/a/b"] {
            let error = Source::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn addresses_of_origin_name_a_repository() {
        for address in [
            "https://github.com/o/n.git",
            "https://token@github.com/o/n",
            "git@github.com:o/n.git",
            "github.com:/o/n",
            "ssh://git@github.com/o/n.git",
            "ssh://git@github.com:22/o/n",
        ] {
            let id = repo_id(address).unwrap_or_else(|| panic!("{address:?} names nothing"));
            assert_eq!(id.to_string(), "https://github.com/o/n", "{address:?}");
        }
        for address in ["/srv/git/x", "../x", "file:///srv/x", "git@github.com:n", "C:x"] {
            assert_eq!(repo_id(address), None, "{address:?}");
        }
    }
}
