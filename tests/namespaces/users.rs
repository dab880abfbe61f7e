//! Who runs what: never root inside, never root outside.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use acquire::{method::ports::Sandboxes as _, sandbox::namespaces::Settings};
use nix::unistd::Uid;

use super::{
    lives::{eventually, processes_of},
    *,
};
use sandbox_conformance::{LIMITS, output, resolver};

/// A user that has no entry anywhere.
const ORDINARY: &str = "47110";

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_sandbox_is_root_inside_or_outside() {
    let base = tempfile::tempdir().unwrap();
    let sandboxes = example(base.path(), Settings::default()).await;
    let sandbox = resolver(&sandboxes).await;
    let script = "echo $EUID $UID; stat -c %u . README.md; id -un; touch /tmp/mine; stat -c %u /tmp/mine";
    assert_eq!(output(&*sandbox, script).await, "1000 1000\n1000\n1000\nagent\n1000");
    let run = sandbox.run("sleep 1000", LIMITS);
    let look = async {
        let processes = || processes_of(base.path());
        eventually("the command starts", || processes().iter().any(|(_, line)| line.starts_with("sleep\0")));
        let mut seen = Vec::new();
        for (pid, line) in processes() {
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
            let ids = status.lines().find(|line| line.starts_with("Uid:")).unwrap().to_owned();
            assert!(!ids.split_whitespace().skip(1).any(|id| id == "0"), "{line}: {ids}");
            seen.push(line);
        }
        // The launcher, hakoniwa's process, the supervisor, the command.
        assert!(seen.len() >= 4, "{seen:?}");
        sandbox.close().await;
    };
    let (_, ()) = tokio::join!(run, look);
    sandboxes.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_10_the_environment_inside_is_a_short_list_and_the_launchers_is_empty() {
    let base = tempfile::tempdir().unwrap();
    let sandboxes = example(base.path(), Settings::default()).await;
    let sandbox = resolver(&sandboxes).await;
    // What the shell was given; it adds some of its own.
    let given = output(&*sandbox, "tr '\\0' '\\n' < /proc/$$/environ | sort").await;
    let lines: Vec<&str> = given.lines().filter(|line| !line.starts_with("PATH=")).collect();
    assert_eq!(lines, ["CI=true", "HOME=/tmp/home", "PAGER=cat", "TMPDIR=/tmp"]);
    let path = output(&*sandbox, "echo $PATH").await;
    assert_eq!(
        path.trim_start_matches("/opt/rust/bin:"),
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    );
    // Nothing that a process could find in its ancestors, however it got at them.
    let launchers: Vec<i32> = processes_of(base.path())
        .into_iter()
        .filter(|(_, line)| line.contains("\0launch-sandbox\0"))
        .map(|(pid, _)| pid)
        .collect();
    assert!(!launchers.is_empty());
    for pid in launchers {
        // Not shown where it is not empty: it is the host's.
        assert!(fs::read(format!("/proc/{pid}/environ")).unwrap().is_empty(), "{pid}");
    }
    sandboxes.close().await;
}

/// Runs this whole binary again as somebody else.
#[test]
fn an_ordinary_user_gets_the_same_sandbox_as_root() {
    if !Uid::effective().is_root() {
        eprintln!("this is already run by an ordinary user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let reachable = |program: &Path, name: &str| {
        let copy = folder.path().join(name);
        fs::copy(program, &copy).unwrap();
        copy
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let tests = reachable(&std::env::current_exe().unwrap(), "tests");
    let launcher = reachable(&launcher(), "acquire");
    let output = Command::new("setpriv")
        .args(["--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups", "--"])
        .arg(tests)
        // Slow, and no question of who asks.
        .args(["--skip", "a_tree_too_large", "--skip", "a_full_disk", "--skip", "the_workspace_is_as_large"])
        .args(["--skip", "an_ordinary_user_gets"])
        .env(LAUNCHER_VARIABLE, launcher)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("walls::") || said.contains("s_10_nothing_of_the_host_is_found_inside ... ok"),
        "{said}"
    );
}
