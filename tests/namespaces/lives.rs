//! How sandboxes end: their processes, folders and cgroups.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use acquire::{
    domain::{AgentName, TreeChanges},
    method::ports::{Access, SandboxError, Sandboxes as _},
    sandbox::namespaces::Settings,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::*;
use sandbox_conformance::{LIMITS, answerer, output, resolver, run_for};

/// Tells [`a_killed_host_leaves_nothing_running_and_nothing_behind`] to be the host that is killed.
const VICTIM_VARIABLE: &str = "ACQUIRE_TEST_VICTIM";

/// The processes of the sandboxes whose folders are below `base`, launchers first: id, command line.
pub fn processes_of(base: &Path) -> Vec<(i32, String)> {
    let mut parents = HashMap::new();
    let mut lines = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // After the name in parentheses: state, parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2)?.parse::<i32>().ok());
        parents.insert(pid, parent.unwrap_or(0));
        lines.insert(pid, fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default());
    }
    let base = base.to_str().unwrap();
    let is_launcher = |pid: &i32| {
        lines.get(pid).is_some_and(|line| line.contains("\0launch-sandbox\0") && line.contains(base))
    };
    let belongs = |pid: &i32| std::iter::successors(Some(pid), |pid| parents.get(pid)).any(is_launcher);
    let mut found: Vec<_> =
        lines.iter().filter(|(pid, _)| belongs(pid)).map(|(pid, line)| (*pid, line.clone())).collect();
    found.sort_unstable();
    found
}

/// The host's ids of the supervisors among them.
fn supervisors(base: &Path) -> Vec<i32> {
    let all = processes_of(base).into_iter();
    all.filter(|(_, line)| line.starts_with("/supervisor\0")).map(|(pid, _)| pid).collect()
}

/// Waits for something that happens soon, and fails when it does not.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn cgroups_of(run: &RunId) -> usize {
    let of_run = |name: &str| name.starts_with(&format!("acquire-{}-", run.as_str()));
    walk(Path::new("/sys/fs/cgroup"), 6).into_iter().filter(|name| of_run(name)).count()
}

fn walk(folder: &Path, depth: u32) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.extend(entry.file_name().into_string());
            names.extend(walk(&entry.path(), depth - 1));
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn r_ex_6_a_supervisor_that_does_not_answer_is_a_lost_sandbox_and_is_killed() {
    let base = tempfile::tempdir().unwrap();
    let sandboxes = example(base.path(), Settings::default()).await;
    let sandbox = resolver(&sandboxes).await;
    let [supervisor] = supervisors(base.path())[..] else { panic!("one sandbox is open") };
    kill(Pid::from_raw(supervisor), Signal::SIGSTOP).unwrap();
    let begun = Instant::now();
    let limits = acquire::method::ports::CommandLimits { timeout: Duration::from_millis(200), ..LIMITS };
    let lost = sandbox.run("true", limits).await;
    assert!(matches!(lost, Err(SandboxError::Lost(_))), "{lost:?}");
    assert!((5_200..7_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    eventually("the lost sandbox goes on", || supervisors(base.path()).is_empty());
    // A fresh one takes its place.
    assert_eq!(output(&*resolver(&sandboxes).await, "cat README.md").await, "# Example");
    sandboxes.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_run_leaves_no_process_no_folder_and_no_cgroup() {
    let base = tempfile::tempdir().unwrap();
    let tree = MemoryTree::example();
    let (history, run) = (tree.history_now(), run_id());
    let sandboxes =
        start(base.path(), run.clone(), Arc::new(tree), history, Settings::default()).await.unwrap();
    let (one, two) = tokio::join!(answerer(&sandboxes), resolver(&sandboxes));
    run_for(&*one, 200, "setsid sleep 1000 & sleep 1000").await;
    assert_eq!(supervisors(base.path()).len(), 2);
    drop(two);
    eventually("a dropped sandbox goes on", || supervisors(base.path()).len() == 1);
    let begun = Instant::now();
    let (lost, ()) = tokio::join!(one.run("sleep 1000", LIMITS), sandboxes.close());
    assert!(matches!(lost, Err(SandboxError::Lost(_))), "{lost:?}");
    // Less than the patience after which it is killed: the supervisor ends when the host hangs up.
    assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
    assert_eq!(processes_of(base.path()), []);
    drop((one, sandboxes));
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    assert_eq!(cgroups_of(&run), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn s_09_an_opening_that_is_given_up_leaves_nothing_running_while_the_run_goes_on() {
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let base = tempfile::tempdir().unwrap();
        let tree = Arc::new(MemoryTree::example().endless(1));
        let (history, run) = (tree.history_now(), run_id());
        let sandboxes =
            start(base.path(), run.clone(), tree.clone(), history, Settings::default()).await.unwrap();
        let (agent, none) = (AgentName::resolver(), TreeChanges::default());
        let half_open = async {
            while tree.endless_left() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(supervisors(base.path()).len(), 1);
        };
        tokio::select! {
            ended = sandboxes.open(&agent, access, &none) => panic!("it is endless: {:?}", ended.err()),
            () = half_open => {}
        }
        eventually("what was half opened goes on", || processes_of(base.path()).is_empty());
        assert_eq!(cgroups_of(&run), 0);
        let next = sandboxes.open(&agent, access, &none).await.unwrap();
        assert_eq!(output(&*next, "cat README.md").await, "# Example");
        sandboxes.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_leaves_nothing_running_and_nothing_behind() {
    if let Some(base) = std::env::var_os(VICTIM_VARIABLE) {
        let base = PathBuf::from(base);
        let sandboxes = example(&base, Settings::default()).await;
        let (one, two) = tokio::join!(answerer(&sandboxes), resolver(&sandboxes));
        let loud = "setsid sleep 1000 & while true; do sleep 0.01; done";
        let say = async move {
            let sleeping = |(_, line): &(i32, String)| line.starts_with("sleep\x001000");
            eventually("commands start", || processes_of(&base).iter().filter(|p| sleeping(p)).count() == 2);
            println!("victim is ready");
        };
        let commands = futures_util::future::join(one.run(loud, LIMITS), two.run(loud, LIMITS));
        let _ = tokio::join!(tokio::task::spawn(say), commands);
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lives::a_killed_host_leaves_nothing_running_and_nothing_behind", "--nocapture"])
        .env(VICTIM_VARIABLE, base.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("victim is ready")));
    let left = processes_of(base.path());
    assert!(left.len() >= 2 * 4, "{left:?}");
    let run = fs::read_dir(base.path()).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
    let run = RunId::try_from(run.file_name().into_string().unwrap()).unwrap();

    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("processes outlive their host", || {
        left.iter().all(|(pid, _)| !Path::new(&format!("/proc/{pid}")).exists())
    });
    // The next run takes the folders away.
    let sandboxes = example(base.path(), Settings::default()).await;
    assert!(!base.path().join(run.as_str()).exists());
    assert_eq!(cgroups_of(&run), 0);
    drop(sandboxes);
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_host_without_namespaces_is_a_clear_error() {
    let base = tempfile::tempdir().unwrap();
    let tree = MemoryTree::example();
    let history = tree.history_now();
    let launcher = "/bin/false".into();
    let started = Namespaces::start(
        run_id(),
        Arc::new(tree),
        Some(history),
        Settings::default(),
        base.path(),
        launcher,
    );
    let error = started.await.map(drop).unwrap_err();
    let SandboxError::Unavailable(message) = error else { panic!("{error}") };
    assert!(message.starts_with("the namespaces sandbox cannot be started ("), "{message}");
    assert!(message.contains("user namespaces") && message.contains("--sandbox docker"), "{message}");
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}
