//! The reaper: what a killed process left behind at the engine goes away.
//!
//! An object is removed when nobody can want it any more:
//!
//! - It is of our own instance, and its run is not among those that are active. The caller knows which
//!   are; a run must count as active *before* anything of it is created, and in every process that
//!   shares the instance id. The caller is asked *after* the objects were listed: what is listed then is of
//!   runs that have begun. Where the caller cannot tell, nothing of our own is touched.
//! - It is of another instance, its lease has run out, and it is older than two minutes. Labels cannot
//!   be changed, so a lease is not renewed: it ends at the start of its run plus the longest that a run
//!   may take. The two minutes are for clocks that differ.
//!
//! What does not carry all of our labels is not ours. Accepted: a call to create something that is under
//! way when its run is removed may succeed after we looked; the next round finds it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bollard::models::{ContainerSummary, Volume};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};

use super::{
    engine::{Engine, EngineError},
    labels::{InstanceId, Owner},
};
use crate::{
    domain::RunId,
    method::ports::{Clock, SandboxError},
};

/// Time between two rounds while a run lives, for [`super::DockerRun::reap_every`].
pub const REAP_EVERY: Duration = Duration::from_secs(60);
/// Youngest age at which an object of another instance is removed.
const GRACE: SignedDuration = SignedDuration::from_mins(2);

/// Says which runs of this instance are active now; `None` where it cannot tell.
pub type ActiveRuns = Arc<dyn Fn() -> Option<BTreeSet<RunId>> + Send + Sync>;

/// One object of ours, of whichever instance.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    /// Id of a container, name of a volume.
    key: String,
    owner: Owner,
    /// `None` where the engine does not say.
    created: Option<Timestamp>,
}

/// All objects of all instances.
#[derive(Debug, Default)]
struct Findings {
    containers: Vec<Found>,
    volumes: Vec<Found>,
}

/// Removes what no active run of `instance`, and no other instance, can want any more.
///
/// # Errors
/// [`SandboxError::Unavailable`] when the engine does not answer. What it refuses to remove is logged
/// and left for the next round.
pub async fn reap(
    engine: &Engine,
    instance: &InstanceId,
    active: &ActiveRuns,
    now: Timestamp,
) -> Result<(), SandboxError> {
    let findings = look(engine).await?;
    let active = active();
    remove_if(engine, &findings, |found| is_waste(found, instance, active.as_ref(), now)).await;
    Ok(())
}

/// Removes everything of one run: at its end, and before it is resumed in a new process.
pub(super) async fn remove_run(
    engine: &Engine,
    instance: &InstanceId,
    run: &RunId,
) -> Result<(), EngineError> {
    let findings = look(engine).await?;
    remove_if(engine, &findings, |found| found.owner.instance == *instance && found.owner.run == *run).await;
    Ok(())
}

/// Reaps for ever. The first round is due when `every` has passed.
pub(super) async fn keep_reaping(
    engine: Engine,
    instance: InstanceId,
    active: ActiveRuns,
    clock: Arc<dyn Clock>,
    every: Duration,
) {
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = reap(&engine, &instance, &active, clock.now()).await {
            tracing::warn!(%error, "a round of the reaper failed; the next is to come");
        }
    }
}

fn is_waste(found: &Found, us: &InstanceId, active: Option<&BTreeSet<RunId>>, now: Timestamp) -> bool {
    if found.owner.instance == *us {
        return active.is_some_and(|active| !active.contains(&found.owner.run));
    }
    let old = found.created.is_some_and(|created| now.duration_since(created) > GRACE);
    old && found.owner.lease_until < now
}

/// Containers first: an engine does not let go of a volume that a container has.
async fn remove_if(engine: &Engine, findings: &Findings, unwanted: impl Fn(&Found) -> bool) {
    let containers = findings.containers.iter().filter(|found| unwanted(found));
    let removed = join_all(containers.map(|found| engine.remove_container(&found.key))).await;
    let volumes = findings.volumes.iter().filter(|found| unwanted(found));
    let removed_volumes = join_all(volumes.map(|found| engine.remove_volume(&found.key))).await;
    for error in removed.into_iter().chain(removed_volumes).filter_map(Result::err) {
        tracing::warn!(%error, "an object is left for the reaper's next round");
    }
}

async fn look(engine: &Engine) -> Result<Findings, EngineError> {
    let (containers, volumes) = tokio::try_join!(engine.our_containers(), engine.our_volumes())?;
    Ok(Findings {
        containers: containers.into_iter().filter_map(Found::container).collect(),
        volumes: volumes.into_iter().filter_map(Found::volume).collect(),
    })
}

impl Found {
    fn container(summary: ContainerSummary) -> Option<Self> {
        Some(Self {
            owner: Owner::from_labels(&summary.labels?)?,
            key: summary.id?,
            created: summary.created.and_then(|seconds| Timestamp::from_second(seconds).ok()),
        })
    }

    fn volume(volume: Volume) -> Option<Self> {
        Some(Self {
            owner: Owner::from_labels(&volume.labels)?,
            key: volume.name,
            created: volume.created_at.and_then(|text| text.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T12:00:00Z";

    fn run(name: &str) -> RunId {
        RunId::try_from(name.to_owned()).unwrap()
    }

    fn us() -> InstanceId {
        InstanceId::parse("us").unwrap()
    }

    fn found(instance: &str, lease_until: &str, created: Option<&str>) -> Found {
        Found {
            key: "x".into(),
            owner: Owner {
                instance: InstanceId::parse(instance).unwrap(),
                run: run("run-1"),
                lease_until: lease_until.parse().unwrap(),
            },
            created: created.map(|text| text.parse().unwrap()),
        }
    }

    fn waste(found: &Found, active: Option<&[&str]>) -> bool {
        let active = active.map(|runs| runs.iter().map(|name| run(name)).collect());
        is_waste(found, &us(), active.as_ref(), NOW.parse().unwrap())
    }

    #[test]
    fn reaper_our_own_objects_of_no_active_run_go_at_once() {
        let young = found("us", "2026-11-30T14:00:00Z", Some(NOW));
        assert!(waste(&young, Some(&["run-2"])));
        assert!(waste(&young, Some(&[])));
    }

    #[test]
    fn reaper_an_active_run_keeps_its_objects_even_past_its_lease() {
        let old = found("us", "2026-11-30T10:00:00Z", Some("2026-11-30T08:00:00Z"));
        assert!(!waste(&old, Some(&["run-1"])));
    }

    #[test]
    fn reaper_touches_nothing_of_ours_when_the_active_runs_are_not_known() {
        assert!(!waste(&found("us", "2026-11-30T10:00:00Z", Some("2026-11-30T08:00:00Z")), None));
    }

    #[test]
    fn reaper_another_instances_object_goes_when_its_lease_is_over_and_it_is_old() {
        let hours_old = Some("2026-11-30T09:00:00Z");
        assert!(waste(&found("them", "2026-11-30T11:59:59Z", hours_old), Some(&[])));
        assert!(!waste(&found("them", "2026-11-30T12:00:01Z", hours_old), Some(&[])));
        assert!(!waste(&found("them", "2026-11-30T11:59:59Z", Some("2026-11-30T11:58:30Z")), Some(&[])));
        assert!(!waste(&found("them", "2026-11-30T11:59:59Z", None), Some(&[])));
    }

    #[test]
    fn reaper_unlabelled_objects_are_never_found() {
        assert!(
            Found::container(ContainerSummary { id: Some("x".into()), ..ContainerSummary::default() })
                .is_none()
        );
        let stranger = Volume { name: "x".into(), ..Volume::default() };
        assert!(Found::volume(stranger).is_none());
    }
}
