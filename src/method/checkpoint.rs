//! Stages: each runs once, stores its output, and is read back by a resumed run.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    domain::AgentName,
    method::{
        context::{AgentReport, RunContext, RunError, StageReport},
        ports::{Event, StoreError},
    },
};

#[derive(Serialize, Deserialize)]
struct Stored<T> {
    report: StageReport,
    output: T,
}

/// Runs `work` as the stage `name`, or takes what an earlier process stored of it. Either way the stage is
/// added to `stages`, also when it fails.
pub async fn checkpoint<T: Serialize + DeserializeOwned>(
    context: &RunContext,
    name: &'static str,
    stages: &mut Vec<StageReport>,
    work: impl Future<Output = (Vec<AgentReport>, Result<T, RunError>)>,
) -> Result<T, RunError> {
    let services = &context.services;
    if let Some(Stored { report, output }) = stored::<Stored<T>>(context, name).await? {
        services.progress.report(Event::StageFinished { name, account: report.account(), resumed: true });
        for agent in &report.agents {
            if let Some(agent_name) = AgentName::of_stored(&agent.name) {
                context.restore(&agent_name, agent);
            }
        }
        stages.push(report);
        return Ok(output);
    }
    services.progress.report(Event::StageStarted { name });
    // Mirror and sandboxes were made before the first stage could begin: they are part of it.
    let started = if stages.is_empty() { context.started } else { services.clock.monotonic() };
    let (agents, result) = work.await;
    let elapsed = (services.clock.monotonic() - started).as_secs_f64();
    // An agent that went on counts the turns of earlier processes; so does its stage.
    let seconds = agents.iter().map(|agent| agent.account.seconds).fold(elapsed, f64::max);
    let report = StageReport { name: name.to_owned(), seconds, agents };
    let stored = match result {
        Ok(output) => {
            let stored = Stored { report: report.clone(), output };
            store(context, name, &stored).await.map(|()| stored.output)
        }
        Err(error) => Err(error),
    };
    if stored.is_ok() {
        services.progress.report(Event::StageFinished { name, account: report.account(), resumed: false });
    }
    stages.push(report);
    stored
}

/// What is stored under `name`, if anything.
pub async fn stored<T: DeserializeOwned>(context: &RunContext, name: &str) -> Result<Option<T>, RunError> {
    let Some(value) = context.services.store.stage(name).await? else {
        return Ok(None);
    };
    serde_json::from_value(value).map(Some).map_err(|error| {
        let what = format!("the stored output of stage `{name}`");
        StoreError { what, reason: format!("{error}. It was written by another version; start a new run") }
            .into()
    })
}

/// Stores `output` under `name`.
pub async fn store(context: &RunContext, name: &str, output: &impl Serialize) -> Result<(), RunError> {
    let value = serde_json::to_value(output).map_err(|error| StoreError {
        what: format!("the output of stage `{name}`"),
        reason: error.to_string(),
    })?;
    Ok(context.services.store.put_stage(name, &value).await?)
}
