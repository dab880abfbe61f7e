//! What is said, and how soon, when engine or image are missing or break.

use std::time::{Duration, Instant};

use acquire::{
    domain::{AgentName, TreeChanges},
    method::ports::{Access, CommandLimits, SandboxError, Sandboxes},
    sandbox::docker::{DockerSettings, Engine},
};

use crate::{
    needs_engine,
    support::{Installation, LIMITS, RunOf, engine_proxy::EngineProxy, output, resolver, settings},
};

#[tokio::test]
async fn no_engine_is_said_with_its_address_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix://{}/docker.sock", folder.path().display());
    let error = Engine::connect(Some(&address)).await.unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable(_)), "{error:?}");
    let shown = error.to_string().replace(&address, "ADDRESS");
    insta::assert_snapshot!(shown, @"no Docker engine answers at ADDRESS (there is no such socket). Start Docker");
}

#[tokio::test]
async fn an_image_that_is_missing_is_said_with_what_to_do() {
    needs_engine!();
    let installation = Installation::new().await;
    let of = RunOf {
        settings: DockerSettings { image: "no-such-image:9".into(), ..settings() },
        ..installation.run()
    };
    let error = installation.start(of).await.err().unwrap();
    assert!(matches!(error, SandboxError::Unavailable(_)), "{error:?}");
    insta::assert_snapshot!(error, @"Docker has no image `no-such-image:9`. Make the default one with scripts/sandbox-image, or name another with --image (sandbox.image) and fetch it with `docker pull`");
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn an_engine_that_stops_during_a_command_is_a_lost_sandbox_at_once() {
    needs_engine!();
    let installation = Installation::new().await;
    let mut proxy = EngineProxy::start();
    let of = RunOf { host: Some(proxy.address()), ..installation.run() };
    let run = of.run.clone();
    let sandboxes = installation.start(of).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    assert_eq!(output(&sandbox, "echo before").await, "before\n");

    let begun = Instant::now();
    let limits = CommandLimits { timeout: Duration::from_secs(60), ..LIMITS };
    let (outcome, ()) = tokio::join!(sandbox.run("sleep 50", limits), proxy.cut());
    let error = outcome.unwrap_err();
    assert!(matches!(error, SandboxError::Lost(_)), "{error:?}");
    assert!(error.to_string().contains("no Docker engine answers"), "{error}");
    assert!(error.to_string().contains("resume the run"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "noticed only after {:?}", begun.elapsed());

    // A fresh one cannot be had either, and that is the operator's to mend.
    let again = sandboxes.open(&AgentName::resolver(), Access::ReadWrite, &TreeChanges::default()).await;
    assert!(matches!(again.err(), Some(SandboxError::Unavailable(_))));
    sandbox.close().await;
    sandboxes.close().await;

    // The engine is back: the resumed run removes what the first process could not.
    let resumed = installation.start(RunOf { run, ..installation.run() }).await.unwrap();
    assert_eq!(output(&resolver(&resumed).await, "cat README.md").await, "# Example\n");
    resumed.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn closing_ends_within_ten_seconds_when_the_engine_hangs() {
    needs_engine!();
    let installation = Installation::new().await;
    let mut proxy = EngineProxy::start();
    let of = RunOf { host: Some(proxy.address()), ..installation.run() };
    let run = of.run.clone();
    let sandboxes = installation.start(of).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    proxy.hang().await;
    let begun = Instant::now();
    tokio::join!(sandbox.close(), sandboxes.close());
    assert!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());

    installation.start(RunOf { run, ..installation.run() }).await.unwrap().close().await;
    installation.nothing_is_left().await;
}
