//! The host: its secrets, and a run on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};

const SEARCH: &str = include_str!("search.py");

/// A folder with a home, a working directory and a repository, all of which hold the canary.
pub struct Host {
    folder: tempfile::TempDir,
    canary: String,
    control: String,
    files: usize,
}

impl Host {
    pub fn new() -> anyhow::Result<Self> {
        let random = || -> anyhow::Result<String> {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes)?;
            Ok(hex::encode(bytes))
        };
        let folder = tempfile::tempdir()?;
        // It is walls that are tested, not permissions.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let mut host = Self { folder, canary: random()?, control: random()?, files: 0 };
        host.plant()?;
        Ok(host)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The canary with the place that it is put in.
    fn canary(&self, place: &str) -> String {
        format!("{}-{place}", self.canary)
    }

    fn plant(&mut self) -> anyhow::Result<()> {
        self.write("repo/src/app.py", "print('hello')\n")?;
        self.write("repo/.gitignore", ".env\n")?;
        self.git(&["init", "--quiet", "--initial-branch=main"])?;
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message=Start"])?;
        self.write("issue.md", "# It says hello\n\nIt should say more.\n")?;
        for (place, path) in [
            ("home_file", "home/notes.txt"),
            ("netrc", "home/.netrc"),
            ("ssh_key", "home/.ssh/id_ed25519"),
            ("git_credentials", "home/.git-credentials"),
            ("cwd_file", "notes.txt"),
            ("cwd_env", ".env"),
            ("cache_file", "cache/notes.txt"),
            ("untracked", "repo/untracked.txt"),
            ("ignored", "repo/.env"),
            ("git_hook", "repo/.git/hooks/post-checkout"),
            ("git_description", "repo/.git/description"),
        ] {
            self.write(path, &format!("{}\n", self.canary(place)))?;
            self.files += 1;
        }
        self.git(&["config", "http.extraHeader", &self.canary("git_config")])?;
        // In objects that the base commit does not reach: another branch, and a stash.
        self.git(&["checkout", "--quiet", "-b", "secret"])?;
        self.write("repo/secret.txt", &self.canary("other_branch"))?;
        self.git(&["add", "secret.txt"])?;
        self.git(&["commit", "--quiet", "--message", &self.canary("message")])?;
        self.git(&["checkout", "--quiet", "main"])?;
        self.write("repo/src/app.py", &self.canary("stash"))?;
        self.git(&["stash", "--quiet"])?;
        self.files += 4;
        Ok(())
    }

    /// Places that hold the canary: files and objects, and three variables.
    pub fn planted(&self) -> usize {
        self.files + 3
    }

    fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().context("every path has a folder")?)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    fn git(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = std::process::Command::new("git")
            .args([
                "-c",
                "user.name=canary",
                "-c",
                "user.email=canary@example.invalid",
                "-c",
                "core.hooksPath=/dev/null",
            ])
            .args(arguments)
            .current_dir(self.path("repo"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()?;
        ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// The command that an agent runs. It does not hold the texts that it looks for.
    pub fn search_command(&self) -> String {
        let backwards = |text: &str| text.chars().rev().collect::<String>();
        format!(
            "python3 - {} {} <<'END_OF_SEARCH'\n{SEARCH}\nEND_OF_SEARCH",
            backwards(&self.canary),
            backwards(&self.control)
        )
    }

    /// A whole run. Gives what it printed.
    pub async fn solve(&self, kind: &str, base_url: &str) -> anyhow::Result<Vec<u8>> {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_acquire"))
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").context("there is no PATH")?)
            .env("HOME", self.path("home"))
            .env("CANARY", self.canary("variable"))
            .env("GITHUB_TOKEN", self.canary("token"))
            .env("ACQUIRE_MODEL__API_KEY", self.canary("key"))
            .env("ACQUIRE_MODEL__BASE_URL", base_url)
            .env("ACQUIRE_MODEL__NAME", "scripted")
            .env("ACQUIRE_PATHS__CACHE", self.path("cache"))
            // All of the host's programs may have to be read.
            .env("ACQUIRE_LIMITS__ANSWERER__COMMAND_SECONDS", "900")
            .env("ACQUIRE_LIMITS__RESOLVER__COMMAND_SECONDS", "900")
            .env("RUST_LOG", "acquire=trace")
            .args(["solve", "--json", "--questions", "1", "--sandbox", kind, "--repo", "repo"])
            .args(["--issue-file", "issue.md", "--out", "out"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let printed = [output.stdout, output.stderr].concat();
        ensure!(
            output.status.success(),
            "acquire ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&printed)
        );
        Ok(printed)
    }

    pub fn is_in(&self, bytes: &[u8]) -> bool {
        memchr::memmem::find(bytes, self.canary.as_bytes()).is_some()
    }

    /// Files of the run's folder that hold the canary, in their content or name.
    pub fn in_run_folder(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        let mut seen = 0;
        self.search(&self.path("out"), &mut found, &mut seen)?;
        ensure!(seen > 5, "the run's folder holds only {seen} files");
        Ok(found)
    }

    fn search(&self, folder: &Path, found: &mut Vec<String>, seen: &mut u32) -> anyhow::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.search(&path, found, seen)?;
                continue;
            }
            *seen += 1;
            if self.is_in(&fs::read(&path)?) || self.is_in(path.as_os_str().as_encoded_bytes()) {
                found.push(path.display().to_string());
            }
        }
        Ok(())
    }
}
