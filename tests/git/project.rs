//! Repositories for tests, made by the real git, and agents' repositories taken out of a mirror.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use acquire::{
    domain::{Change, FileMode},
    method::ports::{History, SourceError, SourceTree},
    repo::{CommitTree, Mirror, Settings, Source},
};
use tempfile::TempDir;

/// A git that knows no settings but the repository's own.
pub fn git_command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.com")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.com")
        .args(["-c", "safe.directory=*", "-c", "protocol.file.allow=always"]);
    command
}

pub fn output(command: &mut Command) -> Output {
    command.output().expect("git is installed")
}

/// What git prints, without the line end; panics with its complaint when it fails.
pub fn git(dir: &Path, arguments: &[&str]) -> String {
    let result = output(git_command(dir).args(arguments));
    assert!(result.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&result.stderr));
    String::from_utf8_lossy(&result.stdout).trim_end().to_owned()
}

/// A repository with a work tree, whose branch is `trunk` so that nothing can assume a name.
pub struct Project {
    dir: TempDir,
    commits: Cell<u32>,
}

impl Project {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet", "--initial-branch=trunk"]);
        Self { dir, commits: Cell::new(0) }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(self.path(), arguments)
    }

    pub fn write(&self, path: impl AsRef<OsStr>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Commits everything, each commit one hour after the last, and returns its id.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.commit_index(message)
    }

    pub fn commit_index(&self, message: &str) -> String {
        self.commits.set(self.commits.get() + 1);
        let date = format!("{} +0000", 1_700_000_000 + self.commits.get() * 3600);
        let mut command = git_command(self.path());
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        let result = output(command.args(["commit", "--quiet", "--allow-empty", "-m", message]));
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits a tree given as raw entries `(mode, name, object id)`, which git itself would refuse to make.
    pub fn commit_raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let tree = self.raw_tree(entries);
        let commit = self.git(&["commit-tree", &tree, "-m", "raw"]);
        self.git(&["update-ref", "refs/heads/trunk", &commit]);
        commit
    }

    pub fn raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let mut tree = Vec::new();
        for (mode, name, id) in entries {
            tree.extend_from_slice(mode.as_bytes());
            tree.push(b' ');
            tree.extend_from_slice(name);
            tree.push(0);
            tree.extend_from_slice(git2::Oid::from_str(id).unwrap().as_bytes());
        }
        let repository = git2::Repository::open(self.path()).unwrap();
        repository.odb().unwrap().write(git2::ObjectType::Tree, &tree).unwrap().to_string()
    }

    pub fn blob(&self, content: &[u8]) -> String {
        git2::Repository::open(self.path()).unwrap().blob(content).unwrap().to_string()
    }
}

/// A cache folder, empty at first.
pub struct Cache(TempDir);

impl Cache {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("mirrors")
    }

    pub fn settings(&self) -> Settings {
        Settings::new(self.path())
    }

    pub async fn mirror(&self, source: &str) -> Result<Mirror, SourceError> {
        Mirror::open(Source::parse(source)?, self.settings()).await
    }

    pub async fn tree(&self, project: &Project, base: &str) -> CommitTree {
        let source = project.path().to_str().unwrap();
        self.mirror(source).await.unwrap().at(Some(base)).await.unwrap()
    }

    /// The bare repository of the only mirror.
    pub fn only_mirror(&self) -> PathBuf {
        let mut dirs = fs::read_dir(self.path()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir());
        let dir = dirs.next().expect("there is a mirror");
        assert_eq!(dirs.next(), None);
        dir
    }
}

/// All files that a tree sends, by path.
pub async fn streamed(tree: &CommitTree) -> BTreeMap<Vec<u8>, (FileMode, Vec<u8>)> {
    let (to, mut from) = tokio::sync::mpsc::channel(4);
    let collect = async {
        let mut files = BTreeMap::new();
        while let Some(Change { path, mode, content }) = from.recv().await {
            assert!(files.insert(path, (mode, content)).is_none(), "a path was sent twice");
        }
        files
    };
    let (sent, files) = tokio::join!(tree.stream_files(to), collect);
    sent.unwrap();
    files
}

/// An agent's repository on disk, as a sandbox would hold it.
pub struct Workspace {
    dir: TempDir,
    pub history: History,
}

impl Workspace {
    pub async fn fill(tree: &CommitTree, max_history: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let history = tree.history(dir.path().join("history"), max_history).await.unwrap();
        let workspace = Self { dir, history };
        for (path, (mode, content)) in streamed(tree).await {
            write_change(&workspace.path(), &Change { path, mode, content });
        }
        let alternates = workspace.history.objects.to_str().unwrap();
        for file in tree.git_files(alternates).await.unwrap() {
            write_change(&workspace.path().join(".git"), &file);
        }
        workspace
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.path(), arguments)
    }
}

pub fn write_change(root: &Path, change: &Change) {
    let path = root.join(OsStr::from_bytes(&change.path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match change.mode {
        FileMode::Symlink => {
            std::os::unix::fs::symlink(OsStr::from_bytes(&change.content), path).unwrap();
        }
        mode => {
            fs::write(&path, &change.content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode.git() & 0o777)).unwrap();
        }
    }
}

/// Every file below a folder with its content, to see that nothing changed.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                files.insert(path.clone(), fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec());
            } else if path.is_dir() {
                files.insert(path.clone(), Vec::new());
                open.push(path);
            } else {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    files
}
