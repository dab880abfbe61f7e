//! What sandboxes may use, and what they are given.

use std::fs;

use acquire::{
    domain::{AgentName, FileMode},
    method::ports::{Access, CommandExit, Sandboxes as _},
    sandbox::namespaces::Settings,
};

use super::*;
use sandbox_conformance::{ALONE, answerer, change, output, processes, run, run_for, text};

#[tokio::test(flavor = "multi_thread")]
async fn memory_beyond_the_limit_ends_a_command_and_nothing_else() {
    // Raised to what /tmp and /dev/shm may take, and 768 MiB for programs.
    let settings = Settings { memory_bytes: 1, ..Settings::default() };
    let sandboxes = example(&base(), settings).await;
    let said = "Memory is limited to 1088 MiB.".to_owned();
    if !sandboxes.facts().contains(&said) {
        eprintln!("not tested: this user may set no cgroup here");
        return;
    }
    let sandbox = answerer(&sandboxes).await;
    let hog = "python3 -c 'b\"x\" * (2 << 30)'; echo $?";
    assert_eq!(text(&run(&*sandbox, hog).await).lines().last(), Some("137"));
    // Also when all that is memory without being a program's is full.
    let fill =
        "for place in /tmp /dev/shm; do head -c 1G /dev/zero > $place/large; done 2>&1 | grep -c 'No space'";
    assert_eq!(output(&*sandbox, fill).await, "2");
    assert_eq!(text(&run(&*sandbox, hog).await).lines().last(), Some("137"));
    assert_eq!(output(&*sandbox, "echo alive").await, "alive");
    sandboxes.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_limited_by_cgroup_or_by_user_namespace() {
    let settings = Settings { pids: 40, ..Settings::default() };
    let sandboxes = example(&base(), settings).await;
    assert!(sandboxes.facts().contains(&"At most 40 processes at a time.".to_owned()));
    let sandbox = answerer(&sandboxes).await;
    let forks = "
import os, time
count = 0
try:
    while count < 200:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        count += 1
except BlockingIOError: pass
print(count)";
    let count: usize = sandbox_conformance::python(&*sandbox, forks).await.parse().unwrap();
    assert!((20..40).contains(&count), "{count}");
    assert_eq!(processes(&*sandbox).await, ALONE);
    sandboxes.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_59_the_exported_tree_holds_no_repository_and_no_odd_name() {
    let base = tempfile::tempdir().unwrap();
    let odd = |path: &[u8]| acquire::domain::Change { path: path.to_vec(), ..change("", "odd") };
    let tree = MemoryTree::of(vec![
        change("a.txt", "a"),
        odd(b"back\\slash"),
        odd(b"caf\xe9"),
        odd("sub/.g\u{200c}it/config".as_bytes()),
    ]);
    let history = tree.history_now();
    let run = run_id();
    let sandboxes =
        start(base.path(), run.clone(), Arc::new(tree), history, Settings::default()).await.unwrap();
    let sandbox = answerer(&sandboxes).await;
    assert_eq!(output(&*sandbox, "ls -A; git log --format=%s").await, ".git\na.txt\ncaf\u{fffd}\nStart");
    let folders = fs::read_dir(base.path().join(run.as_str())).unwrap().map(|entry| entry.unwrap().path());
    let exported = folders.into_iter().find(|path| path.to_str().unwrap().contains("/tree-")).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(&exported).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    // A name that is not UTF-8 is odd, but leads nowhere; the other two are not written.
    let latin_1 = std::os::unix::ffi::OsStringExt::from_vec(b"caf\xe9".to_vec());
    assert_eq!(names, [".git".into(), "a.txt".into(), latin_1] as [std::ffi::OsString; 3]);
    assert_eq!(fs::read_dir(exported.join(".git")).unwrap().count(), 0, "only a mount point");
    sandboxes.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_toolchain_works_inside() {
    let found = std::process::Command::new("rustc").arg("--version").output();
    let Ok(version) = found.map(|output| String::from_utf8(output.stdout).unwrap()) else {
        eprintln!("not tested: this user has no Rust toolchain");
        return;
    };
    let tree = MemoryTree::of(vec![
        change("Cargo.toml", "[package]\nname = \"example\"\nedition = \"2024\"\n"),
        change("src/lib.rs", "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n"),
    ]);
    let history = tree.history_now();
    let sandboxes = start(&base(), run_id(), Arc::new(tree), history, Settings::default()).await.unwrap();
    let sandbox = sandbox_conformance::resolver(&sandboxes).await;
    assert_eq!(output(&*sandbox, "rustc --version").await, version.trim_end());
    let outcome = run_for(&*sandbox, 60_000, "cargo test --offline 2>&1").await;
    assert_eq!(outcome.exit, CommandExit::Code(0), "{}", text(&outcome));
    assert!(text(&outcome).contains("test adds ... ok"), "{}", text(&outcome));
    sandboxes.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_is_as_large_as_the_settings_or_the_tree_say() {
    let size = async |sandboxes: &Namespaces| {
        let sandbox = sandbox_conformance::resolver(sandboxes).await;
        output(&*sandbox, "df --output=size -m /workspace /tmp | tail -n 2 | xargs").await
    };
    let sandboxes = example(&base(), Settings::default()).await;
    assert_eq!(size(&sandboxes).await, "512 256");
    let settings = Settings { workspace_bytes: Some(8 << 20), tmp_bytes: 4 << 20, ..Settings::default() };
    let sandboxes = example(&base(), settings).await;
    assert_eq!(size(&sandboxes).await, "8 4");
    let large =
        acquire::domain::Change { mode: FileMode::Regular, ..change("large", &"x".repeat(200 << 20)) };
    let tree = MemoryTree::of(vec![large]);
    let history = tree.history_now();
    let sandboxes = start(&base(), run_id(), Arc::new(tree), history, Settings::default()).await.unwrap();
    assert_eq!(size(&sandboxes).await, "600 256");
    let agent = AgentName::resolver();
    let opened = sandboxes.open(&agent, Access::ReadWrite, &acquire::domain::TreeChanges::default()).await;
    opened.unwrap().close().await;
}

#[test]
fn unknown_settings_are_errors() {
    let parsed: Settings = serde_json::from_str(r#"{"pids": 7}"#).unwrap();
    assert_eq!(parsed, Settings { pids: 7, ..Settings::default() });
    let error = serde_json::from_str::<Settings>(r#"{"pid": 7}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `pid`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r_ex_7_a_sandbox_has_a_budget_of_commands() {
    let budget = acquire::sandbox::CommandBudget { commands: 2, ..Default::default() };
    let sandboxes = example(&base(), Settings { budget, ..Settings::default() }).await;
    let sandbox = answerer(&sandboxes).await;
    for _ in 0..2 {
        output(&*sandbox, "true").await;
    }
    let error = sandbox.run("true", sandbox_conformance::LIMITS).await.unwrap_err();
    assert_eq!(error.to_string(), "the sandbox has used up its 2 commands; no further command runs in it");
    sandboxes.close().await;
}
