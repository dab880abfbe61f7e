//! How long earlier processes worked on a run: its clock does not begin anew when it is resumed (S-09).

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    agent::cut_stage,
    domain::{Account, AgentName},
    method::{
        context::StageReport,
        ports::{RunStore, StoreError},
    },
    store::RunFolder,
};

/// A stage's output, as far as it matters here.
#[derive(Deserialize)]
struct Finished {
    report: StageReport,
}

/// Wall-clock time of the stages that are finished, and of the turns of the one that is not. What a process did
/// without storing anything of it is not known, and not counted.
pub async fn time_used(folder: &RunFolder) -> Result<Duration, StoreError> {
    let mut seconds = 0.0;
    let mut counted = BTreeSet::new();
    for name in names(&folder.path().join("stages"), ".json") {
        // What is damaged is told by whoever needs it.
        let Ok(Some(value)) = folder.stage(&name).await else { continue };
        if let Ok(Finished { report }) = serde_json::from_value(value) {
            seconds += report.seconds;
            counted.extend(report.agents.into_iter().map(|agent| agent.name));
        }
    }
    // Agents of one stage work beside one another: the longest of them counts.
    let mut longest: f64 = 0.0;
    for name in names(&folder.path().join("trajectories"), ".jsonl") {
        let agent = AgentName::of_stored(&name).filter(|_| !counted.contains(&name));
        if let Some(agent) = agent {
            longest = longest.max(of_agent(folder, &agent).await?);
        }
    }
    Ok(Duration::try_from_secs_f64(seconds + longest).unwrap_or_default())
}

async fn of_agent(folder: &RunFolder, agent: &AgentName) -> Result<f64, StoreError> {
    let cut: Option<Value> = folder.stage(&cut_stage(agent)).await?;
    let cut: Account = cut.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    let turns = folder.turns(agent).await?;
    Ok(cut.seconds + turns.iter().map(|turn| turn.account.seconds).sum::<f64>())
}

/// Names of the files in one of the run's folders, without their endings.
fn names(folder: &Path, ending: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(ending)?.to_owned())).collect()
}
