//! What earlier processes of a run took and paid: their time does not begin anew when the run is resumed (S-09),
//! and what they paid is never told smaller than it was, however the resume ends.
//!
//! It stands in two places. Stages and turns are stored as they end; `run.json` is what the last process that came
//! to an end told. Neither holds all of it always: a kill leaves an old `run.json`, a full disk a turn that is not
//! stored. So they are laid over one another, and the larger account of an agent is the true one.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use crate::{
    agent::{Exit, cut_stage},
    domain::{Account, AgentName, Money, RunId},
    method::{
        context::{AgentReport, StageReport},
        ports::{RunStore, StoreError},
    },
    store::{AgentSummary, RunFolder, RunSummary, StageSummary},
};

/// Stages in the order run.
const ORDER: [&str; 5] = ["prepare", "question", "answer", "proposal", "resolve"];

/// A stage's output, as far as it matters here.
#[derive(Deserialize)]
struct Finished {
    report: StageReport,
}

/// The earlier part of a run; nothing where it is new.
#[derive(Debug, Default)]
pub struct Earlier {
    /// From what is stored: finished stages, and the agents of one that is not.
    stored: Vec<StageReport>,
    told: Option<RunSummary>,
}

impl Earlier {
    pub async fn of(folder: &RunFolder, run: &RunId) -> Result<Self, StoreError> {
        // Another run's, where somebody emptied a folder by hand.
        let told = RunSummary::of_folder(folder.path()).filter(|told| told.run_id == *run);
        let exits: BTreeMap<String, String> = told
            .iter()
            .flat_map(|told| &told.stages)
            .flat_map(|stage| &stage.agents)
            .map(|agent| (agent.name.clone(), exit_name(agent)))
            .collect();
        let mut stored: Vec<StageReport> = Vec::new();
        for name in names(&folder.path().join("stages"), ".json") {
            // What is damaged is told by whoever needs it.
            let Ok(Some(value)) = folder.stage(&name).await else { continue };
            if let Ok(Finished { report }) = serde_json::from_value(value) {
                stored.push(report);
            }
        }
        for name in names(&folder.path().join("trajectories"), ".jsonl") {
            let counted = stored.iter().flat_map(|stage| &stage.agents).any(|agent| agent.name == name);
            let Some(agent) = AgentName::of_stored(&name).filter(|_| !counted) else { continue };
            let report = of_agent(folder, &agent, exits.get(&name)).await?;
            // Agents of one stage work beside one another: the longest of them counts.
            let stage = StageReport {
                name: stage_of(&agent).to_owned(),
                seconds: report.account.seconds,
                agents: vec![report],
            };
            lay_over(&mut stored, stage);
        }
        Ok(Self { stored, told })
    }

    /// Wall-clock time of the stages that are finished, and of the turns of the one that is not. What a process did
    /// without storing anything of it is not known, and not counted.
    pub fn time_used(&self) -> Duration {
        let seconds = self.stored.iter().map(|stage| stage.seconds).sum();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// What the last process that came to an end told.
    pub fn told(&self) -> Option<&RunSummary> {
        self.told.as_ref()
    }

    /// The stages as this process knows them, with all that earlier ones did and this one did not come to.
    pub fn complete(&self, mut stages: Vec<StageReport>) -> Vec<StageReport> {
        let told = self.told.iter().flat_map(|told| &told.stages).map(stage_report);
        for stage in self.stored.iter().cloned().chain(told) {
            lay_over(&mut stages, stage);
        }
        stages.sort_by_key(|stage| ORDER.iter().position(|name| *name == stage.name).unwrap_or(ORDER.len()));
        stages
    }

    /// What was paid for replies of which nothing is stored.
    pub fn unstored(&self) -> Money {
        let Some(told) = &self.told else { return Money::ZERO };
        told.total.usd.saturating_sub(told.stages.iter().map(|stage| stage.usd).sum())
    }
}

/// Adds a stage, or what it knows of agents that is more than what is known of them.
fn lay_over(stages: &mut Vec<StageReport>, other: StageReport) {
    let Some(stage) = stages.iter_mut().find(|stage| stage.name == other.name) else {
        return stages.push(other);
    };
    stage.seconds = stage.seconds.max(other.seconds);
    for agent in other.agents {
        let paid = |account: &Account| (account.usd, account.tokens.total());
        match stage.agents.iter_mut().find(|known| known.name == agent.name) {
            None => stage.agents.push(agent),
            Some(known) if paid(&known.account) < paid(&agent.account) => known.account = agent.account,
            Some(_) => {}
        }
    }
}

/// The stage that an agent works in.
fn stage_of(agent: &AgentName) -> &'static str {
    match agent.as_str() {
        "questioner" => "question",
        "proposal" => "proposal",
        "resolver" => "resolve",
        _ => "answer",
    }
}

/// An agent whose stage is not finished. `told` is how it ended, where somebody said so.
async fn of_agent(
    folder: &RunFolder,
    agent: &AgentName,
    told: Option<&String>,
) -> Result<AgentReport, StoreError> {
    if let Some(number) = agent.as_str().strip_prefix("answerer-")
        && let Ok(Some(value)) = folder.stage(&format!("answer-{number}")).await
        && let Ok((report, IgnoredAny)) = serde_json::from_value::<(AgentReport, IgnoredAny)>(value)
    {
        return Ok(report);
    }
    let cut: Option<Value> = folder.stage(&cut_stage(agent)).await?;
    let cut: Account = cut.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    let mut account = Account { steps: 0, ..cut };
    let turns = folder.turns(agent).await?;
    for turn in &turns {
        account += turn.account;
    }
    let submitted = turns.last().is_some_and(|turn| turn.submission.is_some());
    let mut report = AgentReport::new(agent, if submitted { Exit::Submitted } else { Exit::Cancelled });
    report.account = account;
    if let Some(told) = told {
        report.exit.clone_from(told);
    }
    Ok(report)
}

fn stage_report(stage: &StageSummary) -> StageReport {
    let agent = |agent: &AgentSummary| {
        let AgentSummary { steps, seconds, usd, tokens, .. } = *agent;
        AgentReport {
            name: agent.name.clone(),
            exit: exit_name(agent),
            account: Account { steps, seconds, usd, tokens },
            notes: Vec::new(),
        }
    };
    StageReport {
        name: stage.name.clone(),
        seconds: stage.seconds,
        agents: stage.agents.iter().map(agent).collect(),
    }
}

/// As agents are told of, which `run.json` has the same names for.
fn exit_name(agent: &AgentSummary) -> String {
    let name = serde_json::to_value(agent.exit).ok();
    name.as_ref().and_then(Value::as_str).unwrap_or(Exit::Failed.as_str()).to_owned()
}

/// Names of the files in one of the run's folders, without their endings, in the order of their numbers.
fn names(folder: &Path, ending: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |file: std::fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(ending)?.to_owned());
    let mut names: Vec<String> = files.filter_map(name).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        domain::Tokens,
        method::ports::{Opening, Turn},
    };

    const RUN: &str = "20261130-100000-a1b2c3";

    fn run_id() -> RunId {
        RunId::try_from(RUN.to_owned()).unwrap()
    }

    fn usd(amount: f64) -> Money {
        Money::from_usd(amount)
    }

    fn agent(name: &str, exit: &str, usd: f64) -> AgentReport {
        let account = json!({"steps": 1, "seconds": 2.0, "usd": usd,
                             "tokens": {"input": 9, "cached": 0, "output": 1}});
        serde_json::from_value(json!({"name": name, "exit": exit, "account": account, "notes": []})).unwrap()
    }

    fn stage(name: &str, agents: Vec<AgentReport>) -> StageReport {
        StageReport { name: name.into(), seconds: 3.0, agents }
    }

    /// A run folder that holds a finished stage, a finished Answerer and two turns of another.
    async fn folder(path: &Path) -> RunFolder {
        let folder = RunFolder::create(path, Arc::new(str::to_owned)).unwrap();
        let question = json!({"report": stage("question", vec![agent("questioner", "submitted", 0.1)])});
        folder.put_stage("question", &question).await.unwrap();
        folder.put_stage("answer-1", &json!([agent("answerer-1", "submitted", 0.2), {}])).await.unwrap();
        let opening = json!({"agent": "a", "model": "m", "messages": [], "tools": [], "volatile": []});
        let opening: Opening = serde_json::from_value(opening).unwrap();
        for name in [AgentName::questioner(), AgentName::answerer(1), AgentName::answerer(2)] {
            folder.open_agent(&name, &opening).await.unwrap();
            for number in [1, 2] {
                let turn = json!({"turn": number, "finish": "stop", "observed": [], "at": "2026-11-30T10:00:00Z",
                                  "account": agent("", "", 0.5).account});
                let turn: Turn = serde_json::from_value(turn).unwrap();
                folder.append_turn(&name, &turn).await.unwrap();
            }
        }
        let cut = Account { steps: 4, usd: usd(0.25), ..Account::default() };
        folder.put_stage("cut-answerer-2", &serde_json::to_value(cut).unwrap()).await.unwrap();
        folder
    }

    fn told(path: &Path, run: &str, total: f64, stages: &[StageReport]) {
        let stages: Vec<Value> = stages
            .iter()
            .map(|stage| {
                let agents = stage.agents.iter().map(|agent| {
                    let Account { steps, seconds, usd, tokens } = agent.account;
                    json!({"name": agent.name, "steps": steps, "seconds": seconds, "usd": usd, "tokens": tokens,
                           "exit": agent.exit})
                });
                json!({"name": stage.name, "seconds": stage.seconds, "usd": stage.usd(),
                       "tokens": Tokens::default(), "agents": agents.collect::<Vec<_>>()})
            })
            .collect();
        let summary = json!({
            "run_id": run, "version": "0.1.0", "repo": "r", "base": "b", "issue": {"title": "t"},
            "strategy": {"knowledge": "qa", "answerer": "explore", "resolver": "agent"}, "models": {},
            "sandbox": "docker", "outcome": "failed", "stages": stages,
            "total": {"seconds": 1.0, "usd": total, "tokens": Tokens::default()},
        });
        std::fs::write(path.join("run.json"), summary.to_string()).unwrap();
    }

    fn accounts(stages: &[StageReport]) -> Vec<(&str, &str, u32, Money)> {
        let agents = stages.iter().flat_map(|stage| &stage.agents);
        agents.map(|it| (it.name.as_str(), it.exit.as_str(), it.account.steps, it.account.usd)).collect()
    }

    #[tokio::test]
    async fn s_09_all_that_was_paid_is_found_in_what_is_stored() {
        let temporary = tempfile::tempdir().unwrap();
        let earlier = Earlier::of(&folder(temporary.path()).await, &run_id()).await.unwrap();
        let stages = earlier.complete(Vec::new());
        assert_eq!(
            accounts(&stages),
            [
                ("questioner", "submitted", 1, usd(0.1)),
                ("answerer-1", "submitted", 1, usd(0.2)),
                ("answerer-2", "cancelled", 2, usd(1.25)), // 0.25 for turns that a resume cut
            ]
        );
        assert_eq!(earlier.time_used(), Duration::from_secs(7), "3 s, and the longer of 2 s and 4 s");
        assert_eq!(earlier.unstored(), Money::ZERO);
    }

    #[tokio::test]
    async fn s_09_of_an_agent_the_largest_account_counts() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = folder(temporary.path()).await;
        let last = [
            stage("answer", vec![agent("answerer-2", "failed", 1.0)]),
            stage("resolve", vec![agent("resolver", "failed", 3.0)]),
        ];
        told(temporary.path(), RUN, 4.5, &last);
        let earlier = Earlier::of(&folder, &run_id()).await.unwrap();
        let now = vec![
            stage("question", vec![agent("questioner", "submitted", 0.1)]),
            stage("answer", vec![agent("answerer-1", "failed", 0.0), agent("answerer-2", "submitted", 2.0)]),
        ];
        assert_eq!(
            accounts(&earlier.complete(now)),
            [
                ("questioner", "submitted", 1, usd(0.1)),
                ("answerer-1", "failed", 1, usd(0.2)),
                ("answerer-2", "submitted", 1, usd(2.0)),
                ("resolver", "failed", 1, usd(3.0)), // of which only `run.json` knows
            ]
        );
        assert_eq!(accounts(&earlier.complete(Vec::new()))[2].1, "failed", "as it was told");
        assert_eq!(earlier.unstored(), usd(0.5));

        told(temporary.path(), "20261130-100000-ffffff", 9.0, &last);
        let other = Earlier::of(&folder, &run_id()).await.unwrap();
        assert_eq!((other.unstored(), other.complete(Vec::new()).len()), (Money::ZERO, 2), "another run's");
    }
}
