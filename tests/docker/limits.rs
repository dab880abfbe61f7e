//! Limits of memory, processes and time, and what is said when one is hit.

use std::time::{Duration, Instant};

use acquire::{
    method::ports::{CommandLimits, SandboxError, Sandboxes},
    sandbox::docker::DockerSettings,
};

use crate::{
    needs_engine,
    support::{Installation, LIMITS, RunOf, output, resolver, settings, text},
};

#[tokio::test]
async fn decision_3_out_of_memory_ends_the_command_and_not_the_sandbox() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    // The limit is 64 MiB of workspace and a gibibyte. The echo keeps bash from becoming python.
    let hungry = "python3 -c 'x = b\"x\" * (1300 << 20)'; echo $?";
    assert!(output(&sandbox, hungry).await.ends_with("137\n"));
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
    assert!(sandboxes.facts().iter().any(|fact| fact.contains("137")));
    sandboxes.close().await;
}

#[tokio::test]
async fn the_number_of_processes_is_limited() {
    needs_engine!();
    let installation = Installation::new().await;
    let of = RunOf { settings: DockerSettings { pids: 32, ..settings() }, ..installation.run() };
    let sandboxes = installation.start(of).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    // Not bash, which waits and tries again when it cannot fork.
    let many =
        "exec python3 -c 'import subprocess\nfor _ in range(50): subprocess.Popen([\"sleep\", \"60\"])' 2>&1";
    let outcome = sandbox.run(many, LIMITS).await.unwrap();
    assert!(text(&outcome).contains("Resource temporarily unavailable"), "{}", text(&outcome));
    assert!((16..32).contains(&outcome.background_ended), "{}", outcome.background_ended);
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
    sandboxes.close().await;
}

#[tokio::test]
async fn tmp_is_limited_and_programs_may_run_from_it() {
    needs_engine!();
    let installation = Installation::new().await;
    let of = RunOf { settings: DockerSettings { tmp_mib: 8, ..settings() }, ..installation.run() };
    let sandboxes = installation.start(of).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    output(&sandbox, "cp /bin/true $TMPDIR/t && $TMPDIR/t && touch $HOME/t").await;
    let outcome = sandbox.run("head -c 20M /dev/zero > /tmp/big", LIMITS).await.unwrap();
    assert!(text(&outcome).contains("No space left on device"), "{}", text(&outcome));
    sandboxes.close().await;
}

#[tokio::test]
async fn r_ex_6_a_container_that_was_killed_is_a_lost_sandbox_and_a_fresh_one_opens() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let id = installation.container("resolver").await;
    let docker = installation.docker.clone();
    let limits = CommandLimits { timeout: Duration::from_secs(60), ..LIMITS };
    let begun = Instant::now();
    let (outcome, ()) = tokio::join!(sandbox.run("sleep 50", limits), async {
        sleep_is_running(&installation, &id).await;
        docker.kill_container(&id, None::<bollard::query_parameters::KillContainerOptions>).await.unwrap();
    });
    let error = outcome.unwrap_err();
    assert!(matches!(&error, SandboxError::Lost(reason) if reason.contains("killed (137)")), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "noticed only after {:?}", begun.elapsed());

    assert!(matches!(sandbox.run("true", LIMITS).await, Err(SandboxError::Lost(_))));
    sandbox.close().await;
    let fresh = resolver(&sandboxes).await;
    assert_eq!(output(&fresh, "cat README.md").await, "# Example\n");
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

/// Waits until the container runs `sleep`.
async fn sleep_is_running(installation: &Installation, id: &str) {
    loop {
        let top = installation
            .docker
            .top_processes(id, None::<bollard::query_parameters::TopOptions>)
            .await
            .unwrap();
        if top.processes.unwrap_or_default().concat().iter().any(|field| field.contains("sleep 50")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn r_ex_7_a_container_runs_two_thousand_commands_and_no_more() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    for _ in 0..2_000 {
        sandbox.run("exit", LIMITS).await.unwrap();
    }
    let error = sandbox.run("exit", LIMITS).await.unwrap_err();
    assert_eq!(error.to_string(), "the sandbox has used up its 2000 commands; no further command runs in it");
    sandboxes.close().await;
}

#[tokio::test]
async fn r_ex_6_a_supervisor_that_does_not_answer_in_time_is_killed_with_its_container() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let id = installation.container("resolver").await;
    installation.docker.pause_container(&id).await.unwrap();
    let begun = Instant::now();
    let limits = CommandLimits { timeout: Duration::from_secs(1), ..LIMITS };
    let error = sandbox.run("true", limits).await.unwrap_err();
    assert!(
        matches!(&error, SandboxError::Lost(reason) if reason.contains("its container was ended")),
        "{error}"
    );
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(6) && took < Duration::from_secs(12), "it took {took:?}");
    assert!(!installation.objects().await.contains(&id));
    sandboxes.close().await;
    installation.nothing_is_left().await;
}
