//! The real program, run as a user runs it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
};

use acquire::store::RunSummary;
use anyhow::{Context, ensure};
use tokio::process::{Child, Command};

/// A home, a cache and the folders of some runs; gone when it is dropped.
pub struct Home {
    folder: tempfile::TempDir,
}

/// What a run is asked for. Its sandbox is Docker's.
pub struct Task<'a> {
    /// The repository's folder.
    pub repo: &'a Path,
    pub issue: &'a str,
    pub base_url: &'a str,
    pub questions: usize,
    pub patch: bool,
}

/// A run under way.
pub struct Running {
    child: Child,
    /// Below the home's folder.
    _out: tempfile::TempDir,
}

impl Home {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts `acquire solve`.
    pub fn solve(&self, task: &Task) -> anyhow::Result<Running> {
        let issue = self.path("issue.md");
        std::fs::write(&issue, task.issue)?;
        let out = tempfile::tempdir_in(self.folder.path())?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_acquire"));
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").context("there is no PATH")?)
            .env("HOME", self.folder.path())
            .env("ACQUIRE_MODEL__API_KEY", "none")
            .env("ACQUIRE_MODEL__BASE_URL", task.base_url)
            .env("ACQUIRE_MODEL__NAME", "scripted")
            .env("ACQUIRE_PATHS__CACHE", self.path("cache"))
            .args(["solve", "--json", "--sandbox", "docker", "--questions", &task.questions.to_string()])
            .args([OsStr::new("--repo"), task.repo.as_os_str()])
            .args([OsStr::new("--issue-file"), issue.as_os_str()])
            .args([OsStr::new("--out"), out.path().as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if !task.patch {
            command.arg("--no-patch");
        }
        Ok(Running { child: command.spawn()?, _out: out })
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// Waits for its end and gives its `run.json`. An agent that did not submit is an error: its run would be
    /// another than the one to be measured.
    pub async fn finish(self) -> anyhow::Result<RunSummary> {
        let output = self.child.wait_with_output().await?;
        let told = || String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "acquire ended with {}: {}", output.status, told());
        let summary: RunSummary = serde_json::from_slice(&output.stdout)?;
        for agent in summary.stages.iter().flat_map(|stage| &stage.agents) {
            let submitted = agent.exit == acquire::store::AgentExit::Submitted;
            ensure!(submitted, "{} ended with {:?}: {}", agent.name, agent.exit, told());
        }
        Ok(summary)
    }
}
