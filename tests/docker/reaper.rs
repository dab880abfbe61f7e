//! The reaper at a real engine. Every test has an instance id of its own and touches nobody else's.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use acquire::{
    method::ports::Sandboxes,
    sandbox::docker::{ActiveRuns, Engine, reap},
};
use bollard::models::VolumeCreateRequest;
use jiff::{SignedDuration, Timestamp};

use crate::{
    needs_engine,
    support::{Installation, RunOf, answerer, output, resolver},
};

fn nothing_is_active() -> ActiveRuns {
    Arc::new(|| Some(BTreeSet::new()))
}

/// Leaves behind what a process leaves that is killed in mid-run.
async fn die_in_mid_run(installation: &Installation, of: RunOf) {
    let sandboxes = installation.start(of).await.unwrap();
    let open = (answerer(&sandboxes, 1).await, resolver(&sandboxes).await);
    drop((open, sandboxes));
}

#[tokio::test]
async fn reaper_the_next_start_removes_what_a_killed_process_left() {
    needs_engine!();
    let installation = Installation::new().await;
    die_in_mid_run(&installation, installation.run()).await;
    let left = installation.objects().await;
    assert_eq!(left.len(), 3 + 4, "containers and volumes: {left:?}");

    let sandboxes = installation.start(installation.run()).await.unwrap();
    let now = installation.objects().await;
    assert!(now.is_disjoint(&left), "{:?}", now.intersection(&left));
    sandboxes.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn reaper_comes_again_and_again_while_a_run_lives() {
    needs_engine!();
    let installation = Installation::new().await;
    let living = RunOf { reap_every: Duration::from_millis(100), ..installation.run() };
    let living = installation.start(living).await.unwrap();
    let of_living = installation.objects().await;
    let mut labels = installation.volumes().await[0].labels.clone();
    labels.insert("acquire.run".into(), "a-dead-run".into());
    let late = VolumeCreateRequest { labels: Some(labels), ..VolumeCreateRequest::default() };
    installation.docker.create_volume(late).await.unwrap();
    let gone = async {
        while installation.objects().await != of_living {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the reaper did not come");
    living.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn reaper_a_run_that_is_resumed_first_removes_what_it_had() {
    needs_engine!();
    let installation = Installation::new().await;
    let of = installation.run();
    let run = of.run.clone();
    die_in_mid_run(&installation, of).await;
    let left = installation.objects().await;

    // The run counts as active, so only its own start may tell what is left of it from what is new.
    let active = Some(BTreeSet::from([run.clone()]));
    let resumed = installation.start(RunOf { run, active, ..installation.run() }).await.unwrap();
    assert_eq!(output(&resolver(&resumed).await, "cat README.md").await, "# Example\n");
    let containers: BTreeSet<_> = installation.containers().await.into_iter().filter_map(|c| c.id).collect();
    assert!(containers.is_disjoint(&left));
    resumed.close().await;
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn reaper_an_active_run_of_our_own_is_left_alone() {
    needs_engine!();
    let installation = Installation::new().await;
    let (one, other) = (installation.run(), installation.run());
    let both = Some(BTreeSet::from([one.run.clone(), other.run.clone()]));
    let first = installation.start(RunOf { active: both.clone(), ..one }).await.unwrap();
    let sandbox = resolver(&first).await;
    let second = installation.start(RunOf { active: both, ..other }).await.unwrap();
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn reaper_nothing_of_our_own_goes_while_the_active_runs_are_not_known() {
    needs_engine!();
    let installation = Installation::new().await;
    let first = installation.start(installation.run()).await.unwrap();
    let sandbox = resolver(&first).await;
    let second = installation.start(RunOf { active: None, ..installation.run() }).await.unwrap();
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reaper_a_run_that_begins_during_a_round_is_left_alone() {
    needs_engine!();
    let installation = Arc::new(Installation::new().await);
    let engine = Engine::connect(None).await.unwrap();
    let (begins, runtime) = (installation.clone(), tokio::runtime::Handle::current());
    // Who is active is told at once, as it was a moment before another run began.
    let active: ActiveRuns = Arc::new(move || {
        let begins = begins.clone();
        let begun = runtime.spawn(async move { begins.start(begins.run()).await.map(std::mem::forget) });
        tokio::task::block_in_place(|| runtime.block_on(begun)).unwrap().unwrap();
        Some(BTreeSet::new())
    });
    reap(&engine, &installation.instance, &active, Timestamp::now()).await.unwrap();
    assert_eq!(installation.objects().await.len(), 2, "its two volumes");
    reap(&engine, &installation.instance, &nothing_is_active(), Timestamp::now()).await.unwrap();
    installation.nothing_is_left().await;
}

#[tokio::test]
async fn reaper_another_instance_keeps_its_objects_until_its_lease_is_over() {
    needs_engine!();
    let (theirs, ours) = (Installation::new().await, Installation::new().await);
    let engine = Engine::connect(None).await.unwrap();
    let lease_until = Timestamp::now() + SignedDuration::from_secs(150);
    let sandboxes = theirs.start(RunOf { lease_until, ..theirs.run() }).await.unwrap();
    let sandbox = resolver(&sandboxes).await;

    let reap_at = async |now| reap(&engine, &ours.instance, &nothing_is_active(), now).await.unwrap();
    reap_at(lease_until - SignedDuration::from_secs(1)).await;
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");

    reap_at(lease_until + SignedDuration::from_secs(1)).await;
    theirs.nothing_is_left().await;
    sandboxes.close().await;
}

#[tokio::test]
async fn reaper_a_young_object_stays_even_when_its_lease_is_over() {
    needs_engine!();
    let (theirs, ours) = (Installation::new().await, Installation::new().await);
    let engine = Engine::connect(None).await.unwrap();
    let lease_until = Timestamp::now() - SignedDuration::from_secs(1);
    let sandboxes = theirs.start(RunOf { lease_until, ..theirs.run() }).await.unwrap();
    let sandbox = resolver(&sandboxes).await;
    reap(&engine, &ours.instance, &nothing_is_active(), Timestamp::now()).await.unwrap();
    assert_eq!(output(&sandbox, "echo alive").await, "alive\n");
    sandboxes.close().await;
}

#[tokio::test]
async fn reaper_what_does_not_carry_our_labels_is_never_touched() {
    needs_engine!();
    let installation = Installation::new().await;
    let engine = Engine::connect(None).await.unwrap();
    let app = ("acquire.app".to_owned(), "acquire".to_owned());
    let instance = ("acquire.instance".to_owned(), installation.instance.as_str().to_owned());
    let mut names = Vec::new();
    for (name, labels) in [("bare", vec![]), ("half", vec![app, instance])] {
        let request = VolumeCreateRequest {
            name: Some(format!("{}-{name}", installation.instance.as_str())),
            labels: Some(labels.into_iter().collect()),
            ..VolumeCreateRequest::default()
        };
        names.push(installation.docker.create_volume(request).await.unwrap().name);
    }
    reap(&engine, &installation.instance, &nothing_is_active(), Timestamp::now()).await.unwrap();
    for name in names {
        installation.docker.inspect_volume(&name).await.unwrap();
        installation
            .docker
            .remove_volume(&name, None::<bollard::query_parameters::RemoveVolumeOptions>)
            .await
            .unwrap();
    }
}
