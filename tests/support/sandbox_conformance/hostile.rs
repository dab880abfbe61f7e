//! Agents that break things.

use acquire::method::ports::{Access, CommandExit, ListedKind, Since};

use super::*;

pub async fn an_agent_that_deletes_everything_is_survived(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    run(&*sandbox, "rm -rf --no-preserve-root / 2>/dev/null; cd /; rm -rf /workspace /tmp 2>/dev/null").await;
    assert_eq!(output(&*sandbox, "pwd; ls -A").await, "/workspace");
    let listed = sandbox.list_changes(Since::Base).await.unwrap();
    assert_eq!(listed.len(), 6);
    assert!(listed.iter().all(|listed| listed.kind == ListedKind::Removed), "{listed:?}");
}

pub async fn a_fifo_blocks_nobody(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    output(
        &*sandbox,
        "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
    )
    .await;
    output(&*sandbox, "rm README.md; mkfifo README.md").await;
    let listed = sandbox.list_changes(Since::Base).await.unwrap();
    let special =
        |path: &str| acquire::method::ports::Listed { path: path.into(), kind: ListedKind::Special };
    assert_eq!(listed, [special("README.md"), special("pipe"), special("sock")]);
    for path in ["pipe", "sock", "README.md"] {
        assert!(is_limit(&sandbox.fetch(path.as_bytes(), 100).await), "{path}");
    }
    // A command that waits on it ends at its own deadline.
    assert_eq!(run_for(&*sandbox, 300, "cat pipe").await.exit, CommandExit::TimedOut);
}

pub async fn a_full_disk_is_an_error_of_the_command_alone(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    for place in ["/workspace", "/tmp"] {
        let fill = format!("head -c 100G /dev/zero > {place}/large");
        let outcome = run_for(&*sandbox, 60_000, &fill).await;
        assert_eq!(outcome.exit, CommandExit::Code(1), "{place}");
        assert!(text(&outcome).contains("No space left on device"), "{}", text(&outcome));
    }
    assert_eq!(output(&*sandbox, "echo fine; rm /workspace/large /tmp/large").await, "fine");
    // Empty files cost memory as well.
    let files =
        "mkdir many; cd many; python3 -c 'for i in range(10**7): open(str(i), \"w\").close()' 2>&1 | tail -1";
    let outcome = run_for(&*sandbox, 60_000, files).await;
    assert!(text(&outcome).contains("No space left on device"), "{}", text(&outcome));
    assert_eq!(output(&*sandbox, "rm -r many; echo fine").await, "fine");
    assert_eq!(sandbox.list_changes(Since::Base).await.unwrap(), []);
}

pub async fn a_tree_too_large_for_the_workspace_is_a_clear_error(sandboxes: &dyn Sandboxes) {
    // More than the smallest workspace has, and more than three times the tree.
    let large = Change { content: vec![b'x'; 600 << 20], ..change("large", "") };
    let changes = TreeChanges { changed: vec![large], removed: vec![] };
    let opened = sandboxes.open(&AgentName::resolver(), Access::ReadWrite, &changes).await;
    let error = opened.map(drop).unwrap_err();
    assert!(
        matches!(&error, SandboxError::Limit(m) if m.starts_with("the workspace is full: cannot write large: ")),
        "{error}"
    );
    // The next one is not harmed.
    assert_eq!(output(&*resolver(sandboxes).await, "cat README.md").await, "# Example");
}
