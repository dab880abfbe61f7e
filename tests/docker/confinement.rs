//! How a container is held, seen from inside and at the engine.

use std::{collections::BTreeSet, time::Duration};

use acquire::sandbox::docker::DockerSettings;
use acquire::{
    domain::{AgentName, TreeChanges},
    method::ports::{Access, Sandboxes},
};
use bollard::{
    models::ContainerInspectResponse,
    query_parameters::{InspectContainerOptions, RemoveImageOptions, WaitContainerOptions},
};
use futures_util::StreamExt;

use crate::{
    needs_engine,
    support::{Installation, LIMITS, RunOf, answerer, output, resolver, settings, text},
};

async fn inspect(installation: &Installation, role: &str) -> ContainerInspectResponse {
    let id = installation.container(role).await;
    installation.docker.inspect_container(&id, None::<InspectContainerOptions>).await.unwrap()
}

#[tokio::test]
async fn decision_5_inside_there_is_no_privilege_left() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let status =
        output(&sandbox, "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' /proc/self/status").await;
    for line in status.lines() {
        let (field, value) = line.split_once(':').unwrap();
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        match field {
            "Uid" | "Gid" => assert_eq!(value, "1000 1000 1000 1000"),
            "Groups" => assert!(value.is_empty() || value == "1000", "{line}"),
            "NoNewPrivs" => assert_eq!(value, "1"),
            "Seccomp" => assert_eq!(value, "2", "the engine's filter and ours"),
            _ => assert_eq!(value, "0000000000000000", "{line}"),
        }
    }
    assert_eq!(output(&sandbox, "ulimit -n; ulimit -c").await, "4096\n0\n");
    assert_eq!(output(&sandbox, "cat /proc/self/cgroup | cut -d: -f3 | sort -u").await, "/\n");
    assert_eq!(output(&sandbox, "ls /sys/class/net").await, "lo\n");
    assert_eq!(
        output(&sandbox, "cat /etc/hostname; grep -v '^#' /etc/resolv.conf").await,
        "sandbox\nnameserver 127.0.0.1\n"
    );
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_5_the_engine_holds_what_was_asked_for() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let _sandbox = resolver(&sandboxes).await;
    let container = inspect(&installation, "resolver").await;
    let host = container.host_config.unwrap();
    assert_eq!(host.binds.unwrap_or_default(), Vec::<String>::new());
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    assert_eq!((host.memory, host.memory_swap), (Some(1088 << 20), Some(1088 << 20)));
    assert_eq!(
        (host.pids_limit, host.readonly_rootfs, host.privileged),
        (Some(512), Some(true), Some(false))
    );
    assert!(!host.security_opt.unwrap_or_default().iter().any(|option| option.contains("seccomp")));
    // The image by its digest, not by a name that may move.
    assert_eq!(container.config.unwrap().image.as_deref(), Some(sandboxes.image_id()));
    assert!(sandboxes.image_id().starts_with("sha256:"));
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_5_everything_of_a_run_carries_its_labels() {
    needs_engine!();
    let installation = Installation::new().await;
    let of = installation.run();
    let (run, lease_until) = (of.run.clone(), of.lease_until.to_string());
    let sandboxes = installation.start(of).await.unwrap();
    let _sandboxes = (answerer(&sandboxes, 1).await, resolver(&sandboxes).await);

    let containers = installation.containers().await;
    assert_eq!(containers.len(), 3, "holder, answerer, resolver");
    let volumes = installation.volumes().await;
    assert_eq!(volumes.len(), 4, "tree, workspace, supervisor, history");
    let mut postures = BTreeSet::new();
    for labels in containers.iter().map(|container| container.labels.clone().unwrap()) {
        postures.insert(labels["acquire.posture"].clone());
        assert_eq!(
            (labels["acquire.run"].as_str(), &labels["acquire.lease_until"]),
            (run.as_str(), &lease_until)
        );
    }
    assert_eq!(postures.len(), 2, "one for those that write, one for those that only read");
    for volume in volumes {
        assert_eq!(volume.labels["acquire.run"], run.as_str());
    }
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_4_the_supervisor_is_pid_1_and_comes_from_a_volume_that_cannot_be_written() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    assert_eq!(
        output(&sandbox, "tr '\\0' '\\n' < /proc/1/cmdline").await,
        "/acquire/supervisor\n/workspace\n"
    );
    let outcome = sandbox.run("echo x > /acquire/x; cat /acquire/supervisor", LIMITS).await.unwrap();
    assert!(text(&outcome).contains("Read-only file system"), "{}", text(&outcome));
    assert!(
        text(&outcome).contains("Permission denied"),
        "readable, so it could be traced: {}",
        text(&outcome)
    );
    sandboxes.close().await;
}

#[tokio::test]
async fn decision_4_a_container_ends_by_itself_when_the_host_hangs_up() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let id = installation.container("resolver").await;
    drop(sandbox);
    let mut ended = installation.docker.wait_container(&id, None::<WaitContainerOptions>);
    let ended = tokio::time::timeout(Duration::from_secs(10), ended.next()).await;
    assert!(ended.is_ok(), "it runs on without a host");
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn s_14_no_container_is_shared_between_runs_or_agents() {
    needs_engine!();
    let installation = Installation::new().await;
    let (one, other) = (installation.run(), installation.run());
    let both = Some(BTreeSet::from([one.run.clone(), other.run.clone()]));
    let (first_run, second_run) = (one.run.clone(), other.run.clone());
    let one = RunOf { active: both.clone(), ..one };
    let other = RunOf { active: both, ..other };
    let first = installation.start(one).await.unwrap();
    let second = installation.start(other).await.unwrap();
    let sandboxes = [
        answerer(&first, 1).await,
        answerer(&first, 2).await,
        resolver(&first).await,
        answerer(&second, 1).await,
        resolver(&second).await,
    ];
    // What one writes to the only places it can write to, no other sees.
    for sandbox in &sandboxes {
        let seen = output(sandbox, "ls /tmp /dev/shm /workspace | grep -c trace || true").await;
        assert_eq!(seen, "0\n");
        output(sandbox, "touch /tmp/trace /dev/shm/trace; touch /workspace/trace 2>&- || true").await;
    }
    let containers = installation.containers().await;
    let of = |run: &str| {
        let of_run =
            containers.iter().filter(|container| container.labels.as_ref().unwrap()["acquire.run"] == run);
        of_run.map(|container| container.id.clone().unwrap()).collect::<BTreeSet<_>>()
    };
    assert_eq!(of(first_run.as_str()).len(), 4, "holder and three agents");
    assert_eq!(of(second_run.as_str()).len(), 3, "holder and two agents");

    // The end of one run is not the other's.
    first.close().await;
    assert_eq!(output(&sandboxes[4], "cat README.md").await, "# Example\n");
    second.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn s_15_command_text_reaches_bash_as_it_is_and_the_engine_never_sees_it() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let nasty = "'; docker rm -f x; \"$(touch /tmp/host)\" `id` \\ $'\\n' %s {{.Id}} \u{1b}[31m\u{200b} && | > < * ~ !! #";
    // The text goes into a here-document that takes it literally, quotes, newlines and all.
    let command = format!("cat <<'END-OF-TEXT'\n{nasty}\n\n\ttabs and \r\n{nasty}\nEND-OF-TEXT");
    assert_eq!(output(&sandbox, &command).await, format!("{nasty}\n\n\ttabs and \r\n{nasty}\n"));

    let long = format!("echo {}", "a".repeat(100_000));
    assert_eq!(output(&sandbox, &format!("{long} | wc -c")).await, "100001\n");

    // An argument cannot hold it, so no command runs; the sandbox lives on.
    let outcome = sandbox.run("echo before\0echo after", LIMITS).await;
    assert!(!outcome.as_ref().is_ok_and(|outcome| text(outcome).contains("before")), "{outcome:?}");
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");

    let container = inspect(&installation, "resolver").await;
    assert_eq!(container.path.as_deref(), Some("/acquire/supervisor"));
    assert_eq!(container.args.clone().unwrap_or_default(), ["/workspace"]);
    assert!(container.exec_ids.is_none(), "commands must not become execs");
    assert!(!format!("{container:?}").contains("END-OF-TEXT"));
    sandboxes.close().await;
}

#[tokio::test]
async fn a_run_that_closes_while_its_sandboxes_close_leaves_nothing() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let (one, two) = (answerer(&sandboxes, 1).await, resolver(&sandboxes).await);
    tokio::join!(one.close(), two.close(), sandboxes.close());
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn closed_sandboxes_open_no_more() {
    needs_engine!();
    let installation = Installation::new().await;
    let sandboxes = installation.start(installation.run()).await.unwrap();
    let open = resolver(&sandboxes).await;
    sandboxes.close().await;
    assert!(open.run("true", LIMITS).await.is_err());
    let again = sandboxes.open(&AgentName::answerer(1), Access::ReadOnly, &TreeChanges::default()).await;
    assert!(again.is_err());
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn decision_5_an_images_environment_stays_and_what_it_would_weaken_does_not() {
    needs_engine!();
    let installation = Installation::new().await;
    let image = installation
        .image(&[
            "ENV FROM_IMAGE=yes PATH=/opt/tools:/usr/bin:/bin HOME=/root",
            "USER root",
            "VOLUME /data",
            "ENTRYPOINT [\"sleep\", \"100\"]",
            "CMD [\"ignored\"]",
            "HEALTHCHECK --interval=1s CMD touch /tmp/checked",
        ])
        .await;
    let of = RunOf { settings: DockerSettings { image: image.clone(), ..settings() }, ..installation.run() };
    let sandboxes = installation.start(of).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    let environment = output(&sandbox, "echo $FROM_IMAGE $PATH $HOME $TMPDIR $CI $PAGER; id -u").await;
    assert_eq!(environment, "yes /opt/tools:/usr/bin:/bin /tmp/home /tmp true cat\n1000\n");
    assert_eq!(output(&sandbox, "stat -f -c %T /data; ls -A /data | wc -l").await, "tmpfs\n0\n");
    assert!(sandboxes.facts().contains(&"Empty in this sandbox: /data.".to_owned()));
    let container = inspect(&installation, "resolver").await;
    assert_eq!(container.config.unwrap().healthcheck.unwrap().test, Some(vec!["NONE".to_owned()]));
    sandboxes.close().await;
    installation.nothing_is_left().await;
    installation.docker.remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
}
