//! The workspace: what it holds, who may write to it, how long it lives.

use std::{sync::Arc, time::Duration};

use acquire::{
    domain::{AgentName, TreeChanges},
    method::ports::{Access, CommandExit, ListedKind, SandboxError, Sandboxes, Since},
    sandbox::docker::DockerSettings,
};
use bollard::{exec::StartExecOptions, models::ExecConfig};

use crate::{
    needs_engine,
    sandbox_conformance::{MemoryTree, change},
    support::{Installation, LIMITS, RunOf, answerer, output, resolver, settings, text},
};

#[tokio::test]
async fn decision_3_each_workspace_holds_the_tree_and_belongs_to_the_user_inside() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let (answerer, resolver) = (answerer(&sandboxes, 1).await, resolver(&sandboxes).await);
    for sandbox in [&answerer, &resolver] {
        assert_eq!(output(sandbox, "pwd; ./run.sh; cat README.md").await, "/workspace\nrun\n# Example\n");
        assert_eq!(output(sandbox, "id -u; stat -c %u:%g . README.md").await, "1000\n1000:1000\n1000:1000\n");
    }
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

/// No process of a command is left when a sandbox is frozen (R-EX-3), so this one comes from the engine.
#[tokio::test]
async fn s_20_freezing_ends_whatever_process_there_is() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let (docker, container) = (&installation.docker, installation.container("resolver").await);
    let config =
        ExecConfig { cmd: Some(["sleep", "1000"].map(str::to_owned).to_vec()), ..ExecConfig::default() };
    let started = docker.create_exec(&container, config).await.unwrap().id;
    let detached = StartExecOptions { detach: true, ..StartExecOptions::default() };
    docker.start_exec(&started, Some(detached)).await.unwrap();
    let is_running = async || docker.inspect_exec(&started).await.unwrap().running.unwrap();
    assert!(is_running().await);
    sandbox.freeze().await.unwrap();
    // The kernel has killed it by now; the engine learns of it a moment later.
    let gone = async {
        while is_running().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it lives on in a frozen sandbox");
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn s_13_answerers_cannot_write_to_the_workspace_by_the_kernel() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let answerer = answerer(&sandboxes, 1).await;
    for attempt in [
        "echo x > new",
        "echo x >> README.md",
        "rm README.md",
        "chmod 777 README.md",
        "mkdir d",
        "touch -a README.md",
    ] {
        let outcome = answerer.run(attempt, LIMITS).await.unwrap();
        assert_ne!(outcome.exit, CommandExit::Code(0), "{attempt}");
        assert!(text(&outcome).contains("Read-only file system"), "{attempt}: {}", text(&outcome));
    }
    assert_eq!(output(&answerer, "ls").await, "README.md\nlink\nrun.sh\nsrc\nway-out\n");
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_3_all_answerers_share_one_volume_and_each_resolver_has_its_own() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let (first, second, third) =
        tokio::join!(answerer(&sandboxes, 1), answerer(&sandboxes, 2), answerer(&sandboxes, 3));
    let (one, other) = tokio::join!(resolver(&sandboxes), resolver(&sandboxes));
    let names: Vec<_> = installation.volumes().await.into_iter().map(|volume| volume.name).collect();
    let count = |role: &str| names.iter().filter(|name| name.contains(role)).count();
    assert_eq!((count("-tree-"), count("-workspace-")), (1, 2), "{names:?}");

    output(&one, "echo mine > README.md").await;
    assert_eq!(output(&other, "cat README.md").await, "# Example\n");
    for answerer in [first, second, third] {
        assert_eq!(output(&answerer, "cat README.md").await, "# Example\n");
    }
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn decision_3_the_holder_keeps_the_tree_while_no_answerer_uses_it() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    answerer(&sandboxes, 1).await.close().await;
    assert_eq!(output(&answerer(&sandboxes, 2).await, "cat README.md").await, "# Example\n");
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_3_a_tree_whose_holder_was_killed_is_filled_again() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    answerer(&sandboxes, 1).await.close().await;
    installation.kill(&installation.container("holder").await).await;
    assert_eq!(output(&answerer(&sandboxes, 2).await, "cat README.md").await, "# Example\n");
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn decision_3_workspace_quota_is_enforced_in_bytes_and_in_files() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let resolver = resolver(&sandboxes).await;
    let outcome = resolver.run("head -c 100M /dev/zero > big", LIMITS).await.unwrap();
    assert_ne!(outcome.exit, CommandExit::Code(0));
    assert!(text(&outcome).contains("No space left on device"), "{}", text(&outcome));
    // It is full, not broken: the agent can make room and go on.
    output(&resolver, "test $(stat -c %s big) -le $((64 << 20)) && rm big && echo x > small").await;
    assert_eq!(output(&resolver, "df --output=itotal . | tail -1 | tr -d ' '").await, "131072\n");
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_3_a_repository_larger_than_its_workspace_is_refused_and_leaves_nothing() {
    needs_engine!();
    let installation = Installation::new().await;
    let large = MemoryTree::of(vec![change("large", &"x".repeat(3 << 20))]);
    let of = RunOf {
        settings: DockerSettings { workspace_mib: Some(1), ..settings() },
        history: large.history_now(),
        source: Arc::new(large),
        ..installation.run()
    };
    let sandboxes = installation.start(of).await.unwrap();
    let before = installation.objects().await;
    for (agent, access) in
        [(AgentName::resolver(), Access::ReadWrite), (AgentName::answerer(1), Access::ReadOnly)]
    {
        let error = sandboxes.open(&agent, access, &TreeChanges::default()).await.err().unwrap();
        assert!(matches!(error, SandboxError::Limit(_)), "{error:?}");
        assert!(error.to_string().starts_with("the workspace is full: cannot write large"), "{error}");
        assert!(error.to_string().contains("sandbox.workspace_mib"), "{error}");
    }
    assert_eq!(installation.objects().await, before);
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn decision_3_above_a_gibibyte_the_workspace_is_a_plain_volume_and_it_is_said() {
    needs_engine!();
    let installation = Installation::new().await;
    let of =
        RunOf { settings: DockerSettings { workspace_mib: Some(1_025), ..settings() }, ..installation.run() };
    let sandboxes = installation.start(of).await.unwrap();
    let resolver = resolver(&sandboxes).await;
    assert_eq!(output(&resolver, "echo x > new; stat -c %u new . README.md").await, "1000\n1000\n1000\n");
    assert_ne!(output(&resolver, "stat -f -c %T .").await, "tmpfs\n");
    assert!(!sandboxes.facts().iter().any(|fact| fact.contains("/workspace holds at most")));
    assert!(sandboxes.notes().iter().any(|note| note.contains("nothing limits its size")));
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn history_can_be_read_by_all_and_written_by_none() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    for sandbox in [answerer(&sandboxes, 1).await, resolver(&sandboxes).await] {
        assert_eq!(output(&sandbox, "git log --format=%s; git status --short").await, "Start\n");
        assert_eq!(output(&sandbox, "cat .git/objects/info/alternates").await, "/history\n");
        let outcome = sandbox.run("echo x > /history/x", LIMITS).await.unwrap();
        assert!(text(&outcome).contains("Read-only file system"), "{}", text(&outcome));
    }
    sandboxes.close().await;
}

#[tokio::test]
async fn a_resumed_agent_finds_the_base_tree_and_its_saved_changes() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let changes = TreeChanges {
        changed: vec![change("src/main.py", "fixed\n"), change("src/new.py", "new\n")],
        removed: vec!["README.md".into()],
    };
    let resolver = sandboxes.open(&AgentName::resolver(), Access::ReadWrite, &changes).await.unwrap();
    assert_eq!(
        output(&resolver, "cat src/main.py src/new.py; ls").await,
        "fixed\nnew\nlink\nrun.sh\nsrc\nway-out\n"
    );

    // Against the base, so that the patch is whole; a file that was already saved is not new to save.
    let mut listed = resolver.list_changes(Since::Base).await.unwrap();
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    let listed: Vec<_> = listed
        .iter()
        .map(|entry| (String::from_utf8_lossy(&entry.path).into_owned(), entry.kind == ListedKind::Removed))
        .collect();
    let expected = [("README.md", true), ("src/main.py", false), ("src/new.py", false)];
    assert_eq!(listed, expected.map(|(path, removed)| (path.to_owned(), removed)));
    assert_eq!(resolver.list_changes(Since::LastListing).await.unwrap(), []);
    sandboxes.close().await;
}

#[tokio::test]
async fn read_only_sandboxes_take_no_changes() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let changes = TreeChanges { changed: vec![change("a", "b")], removed: vec![] };
    let error = sandboxes.open(&AgentName::answerer(1), Access::ReadOnly, &changes).await.err().unwrap();
    assert!(error.to_string().contains("cannot take changes"), "{error}");
    sandboxes.close().await;
}
