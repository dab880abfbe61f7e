//! A repository to work on, and the program to run on it.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::script::Model;

/// A small repository in a folder of its own, with an issue beside it.
pub struct Project {
    pub folder: TempDir,
}

pub const STORE: &str = "\
import json


class Store:
    def __init__(self, path):
        self.path = path

    def load(self):
        with open(self.path) as file:
            return json.load(file)

    def save(self, items):
        with open(self.path, 'w') as file:
            json.dump(items, file)


def total(items):
    return sum(item['price'] for item in items)
";

impl Project {
    pub fn new() -> Self {
        Self::with(&[("store.py", STORE.as_bytes()), ("README.md", b"# store\n"), (".gitignore", b"*.log\n")])
    }

    pub fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("repo")).unwrap();
        std::fs::write(
            folder.path().join("issue.md"),
            "# total fails on an item without a price\n\n`total([{}])` raises KeyError.\n",
        )
        .unwrap();
        let project = Self { folder };
        project.write(files);
        project.git(&["init", "-q", "-b", "trunk"]);
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", "Start"]);
        project
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(self.path("repo"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Puts files into the work tree.
    pub fn write(&self, files: &[(&str, &[u8])]) {
        for (path, content) in files {
            let path = self.path("repo").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with this project, a model and a cache of its own; its run goes into `out`.
    pub fn acquire(&self, model: &Model) -> tokio::process::Command {
        let mut command = self.program();
        command
            .env("ACQUIRE_MODEL__BASE_URL", model.base_url())
            .args(["solve", "--json", "--repo"])
            .arg(self.path("repo"))
            .arg("--issue-file")
            .arg(self.path("issue.md"))
            .arg("--out")
            .arg(self.path("out"));
        command
    }

    pub fn program(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_acquire"));
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("ACQUIRE_PATHS__CACHE", self.path("cache"))
            .env("ACQUIRE_MODEL__NAME", "scripted")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path("out").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    /// Goes on with the run in `out`, by another model if need be.
    pub fn resume(&self, model: &Model) -> tokio::process::Command {
        let mut command = self.program();
        command
            .env("ACQUIRE_MODEL__BASE_URL", model.base_url())
            .args(["solve", "--json", "--resume"])
            .arg(self.path("out"));
        command
    }

    /// Runs the program to its end. A run folder that it leaves has a `run.json` that keeps its promise.
    pub async fn end(&self, command: &mut tokio::process::Command) -> Ended {
        let output = command.output().await.unwrap();
        if self.path("out/stages").exists() {
            assert_valid(&self.run_json());
        }
        Ended {
            code: output.status.code(),
            told: hide(&String::from_utf8_lossy(&output.stderr), self.folder.path()),
            printed: String::from_utf8(output.stdout).unwrap(),
        }
    }

    pub fn run_json(&self) -> Value {
        serde_json::from_str(&self.read("run.json")).unwrap()
    }

    pub fn knowledge(&self) -> Value {
        serde_json::from_str(&self.read("knowledge.json")).unwrap()
    }
}

/// What the program did.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    /// On stderr, with the project's folder as `DIR`.
    pub told: String,
    /// On stdout.
    pub printed: String,
}

impl Ended {
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.printed, self.told);
        self
    }

    /// The first line that begins with `beginning`.
    #[track_caller]
    pub fn line(&self, beginning: &str) -> &str {
        let found = self.told.lines().find(|line| line.starts_with(beginning));
        found.unwrap_or_else(|| panic!("no line begins with {beginning:?}: {}", self.told))
    }
}

/// Holds `run.json` to its schema.
#[track_caller]
pub fn assert_valid(run: &Value) {
    let schema = serde_json::from_str(include_str!("../../src/store/run.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = schema.iter_errors(run).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:?}: {run:#}");
}

/// The exit code, with everything that was said when it is another one.
#[track_caller]
pub fn assert_exit(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout: {}\nstderr: {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The folder itself, for messages that name it.
pub fn hide(text: &str, folder: &Path) -> String {
    text.replace(&folder.display().to_string(), "DIR")
}
