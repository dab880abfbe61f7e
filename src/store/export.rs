//! Trajectories in the form of mini-swe-agent 2 (`mini-swe-agent-1.1`), which its inspector and other viewers
//! of agents' work open. An export is a view: nothing is read back from it, and a run that still goes on can be
//! exported as far as it is.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    domain::{Account, AgentName},
    method::ports::{Message, Opening, StoreError, ToolCall, Turn},
};

use super::{AgentExit, RunSummary, atomic, file_error, trajectory::Trajectory};

/// As viewers recognise the form.
const FORMAT: &str = "mini-swe-agent-1.1";
/// How the names of such files end; viewers look for it.
const SUFFIX: &str = ".traj.json";

/// Writes the trajectory of each agent of the run in the folder `run` to `to`, each atomically, and returns the
/// files. Text is as the run stored it, secrets taken out.
pub fn export_trajectories(run: &Path, to: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let summary = summary(run)?;
    let agents = agents(run)?;
    if agents.is_empty() {
        return Err(file_error(run, "holds no trajectories; name the folder of a run (its --out)"));
    }
    atomic::make_folder(to)?;
    let mut written = Vec::new();
    for (agent, path) in agents {
        let Some(trajectory) = Trajectory::look(&path)? else { continue };
        // An agent that was being opened when its process ended.
        let Some(opening) = trajectory.opening()? else { continue };
        let ending = Ending::of(run, &agent, summary.as_ref())?;
        let exported = trajectory_json(&opening, &trajectory.turns()?, ending);
        let file = to.join(format!("{agent}{SUFFIX}"));
        let text = serde_json::to_vec_pretty(&exported)
            .map_err(|error| file_error(&file, format!("cannot be encoded: {error}")))?;
        atomic::write(&file, &text)?;
        written.push(file);
    }
    Ok(written)
}

/// `None` where the run has not ended.
fn summary(run: &Path) -> Result<Option<RunSummary>, StoreError> {
    let path = run.join("run.json");
    let Some(text) = atomic::read(&path)? else { return Ok(None) };
    let damaged = |error| file_error(&path, format!("is no run.json of this version ({error})"));
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

/// The run's agents by name, with their files.
fn agents(run: &Path) -> Result<Vec<(AgentName, PathBuf)>, StoreError> {
    let folder = run.join("trajectories");
    let failed = |error| file_error(&folder, format!("cannot be read: {error}"));
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl"));
        // What is no file of ours is left alone; opening a pipe would wait for its writer.
        if let Some(agent) = name.and_then(AgentName::of_stored)
            && entry.file_type().map_err(failed)?.is_file()
        {
            found.push((agent, path));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    Ok(found)
}

/// How an agent's work ended.
#[derive(Debug, Default)]
struct Ending {
    /// `None` while the run goes on.
    exit: Option<AgentExit>,
    /// The Resolver's patch; of other agents their own submission is taken.
    patch: Option<String>,
}

impl Ending {
    fn of(run: &Path, agent: &AgentName, summary: Option<&RunSummary>) -> Result<Self, StoreError> {
        let Some(summary) = summary else { return Ok(Self::default()) };
        let reported = summary.stages.iter().flat_map(|stage| &stage.agents);
        let exit = reported.into_iter().find(|a| a.name == agent.as_str()).map(|a| a.exit);
        let mut patch = None;
        if *agent == AgentName::resolver() {
            for name in ["patch.diff", "patch.partial.diff"] {
                if let Some(diff) = atomic::read(&run.join(name))? {
                    patch = Some(String::from_utf8_lossy(&diff).into_owned());
                    break;
                }
            }
        }
        Ok(Self { exit, patch })
    }
}

/// The words of mini-swe-agent where it has one for the same ending.
fn exit_status(exit: AgentExit) -> &'static str {
    match exit {
        AgentExit::Submitted => "Submitted",
        AgentExit::StepLimit | AgentExit::CostLimit => "LimitsExceeded",
        AgentExit::TimeLimit => "TimeExceeded",
        AgentExit::FormatErrors => "RepeatedFormatError",
        AgentExit::Cancelled => "Cancelled",
        AgentExit::Failed => "Failed",
    }
}

fn trajectory_json(opening: &Opening, turns: &[Turn], ending: Ending) -> Value {
    let mut account = Account::default();
    let mut messages: Vec<Value> = opening.messages.iter().map(|m| message(m, json!({}))).collect();
    for turn in turns {
        account += turn.account;
        messages.extend(turn.messages.iter().map(|m| message(m, extra(m, turn))));
        messages.extend(turn.compaction.as_ref().map(|shortened| {
            let extra =
                json!({ "timestamp": timestamp(turn), "compaction": { "keep_from": shortened.keep_from } });
            json!({ "role": "user", "content": shortened.summary, "extra": extra })
        }));
    }
    let submission = ending.patch.unwrap_or_else(|| submitted(turns));
    let exit_status = ending.exit.map_or("", exit_status);
    if ending.exit.is_some() {
        let extra = json!({ "exit_status": exit_status, "submission": submission });
        messages.push(json!({ "role": "exit", "content": submission, "extra": extra }));
    }
    json!({
        "info": {
            "model_stats": { "instance_cost": account.usd.usd(), "api_calls": account.steps },
            "config": {
                "agent": { "name": opening.agent },
                "agent_type": format!("acquire.{}", opening.agent),
                "model": { "model_name": opening.model },
            },
            "acquire_version": env!("CARGO_PKG_VERSION"),
            "exit_status": exit_status,
            "submission": submission,
        },
        "messages": messages,
        "trajectory_format": FORMAT,
    })
}

/// What an agent other than the Resolver handed in; the Questioner just says it.
fn submitted(turns: &[Turn]) -> String {
    let Some(turn) = turns.last() else { return String::new() };
    match (&turn.submission, turn.messages.first()) {
        (Some(submission), _) => {
            serde_json::to_string_pretty(submission).expect("a JSON value can be written as text")
        }
        (None, Some(Message::Assistant { content: Some(text), tool_calls, .. })) if tool_calls.is_empty() => {
            text.clone()
        }
        _ => String::new(),
    }
}

/// In the shape of OpenAI's chat completions, with what is known beside it under `extra`.
fn message(message: &Message, extra: Value) -> Value {
    let mut shown = match message {
        Message::System { content } | Message::User { content } => {
            json!({ "role": message.role(), "content": content })
        }
        Message::Assistant { content, tool_calls, .. } => {
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            let mut shown = json!({ "role": "assistant", "content": content });
            if !calls.is_empty() {
                shown["tool_calls"] = calls.into();
            }
            shown
        }
        Message::Tool { tool_call_id, content } => {
            json!({ "role": "tool", "tool_call_id": tool_call_id, "content": content })
        }
    };
    shown["extra"] = extra;
    shown
}

fn call(call: &ToolCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}

fn extra(message: &Message, turn: &Turn) -> Value {
    let timestamp = timestamp(turn);
    match message {
        Message::Assistant { tool_calls, .. } => {
            let actions: Vec<Value> = tool_calls.iter().filter_map(action).collect();
            json!({ "actions": actions, "cost": turn.account.usd.usd(), "timestamp": timestamp })
        }
        _ => match &turn.format_error {
            Some(error) => {
                json!({ "timestamp": timestamp, "interrupt_type": "FormatError", "format_error": error })
            }
            None => json!({ "timestamp": timestamp }),
        },
    }
}

/// Seconds since 1970.
fn timestamp(turn: &Turn) -> f64 {
    turn.at.as_duration().as_secs_f64()
}

/// A command that was called for.
fn action(call: &ToolCall) -> Option<Value> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let command = arguments.get("command")?.as_str()?;
    Some(json!({ "command": command, "tool_call_id": call.id }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::examples::{example_opening, example_turn};

    fn run_folder() -> tempfile::TempDir {
        let run = tempfile::tempdir().unwrap();
        fs::create_dir(run.path().join("trajectories")).unwrap();
        run
    }

    fn store(run: &Path, agent: &str, turns: &[Turn]) {
        let path = run.join("trajectories").join(format!("{agent}.jsonl"));
        let mut trajectory = Trajectory::create(&path, &example_opening()).unwrap();
        turns.iter().for_each(|turn| trajectory.append(turn).unwrap());
    }

    fn exported(run: &Path, agent: &str) -> Value {
        let to = run.join("exports");
        export_trajectories(run, &to).unwrap();
        serde_json::from_slice(&fs::read(to.join(format!("{agent}{SUFFIX}"))).unwrap()).unwrap()
    }

    fn acting(number: u32, calls: Value, submission: Value) -> Turn {
        let mut turn = example_turn(number, "");
        turn.messages = serde_json::from_value(json!([
            { "role": "assistant", "content": "I look.", "tool_calls": calls },
            { "role": "tool", "tool_call_id": "c1", "content": "[exit code 0]" },
        ]))
        .unwrap();
        turn.submission = (!submission.is_null()).then_some(submission);
        turn
    }

    #[test]
    fn a_turn_keeps_its_calls_costs_and_results() {
        let run = run_folder();
        let calls = json!([
            { "id": "c1", "name": "bash", "arguments": "{\"command\": \"ls\"}" },
            { "id": "c2", "name": "bash", "arguments": "{\"comm" },
        ]);
        store(run.path(), "answerer-1", &[acting(1, calls, Value::Null)]);
        let value = exported(run.path(), "answerer-1");
        assert_eq!(value["trajectory_format"], FORMAT);
        assert_eq!(value["info"]["model_stats"], json!({ "instance_cost": 0.001, "api_calls": 1 }));
        assert_eq!(value["info"]["config"]["model"]["model_name"], "m");
        let roles: Vec<_> = value["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
        assert_eq!(roles, ["system", "assistant", "tool"]);
        let said = &value["messages"][1];
        assert_eq!(said["tool_calls"][1]["function"]["arguments"], "{\"comm");
        assert_eq!(said["extra"]["actions"], json!([{ "command": "ls", "tool_call_id": "c1" }]));
        assert_eq!(said["extra"]["cost"], 0.001);
    }

    #[test]
    fn the_submission_is_the_patch_or_what_was_handed_in() {
        let run = run_folder();
        let agent = |name: &str| {
            json!({ "name": name, "steps": 1, "seconds": 1.0, "usd": 0.0, "exit": "submitted",
                "tokens": { "input": 1, "cached": 0, "output": 1 } })
        };
        let usage = json!({ "seconds": 1.0, "usd": 0.0, "tokens": { "input": 1, "cached": 0, "output": 1 } });
        let summary = json!({
            "run_id": "20261130-100000-000000", "version": "0", "repo": "r", "base": "b", "issue": { "title": "t" },
            "strategy": { "knowledge": "qa", "answerer": "explore", "resolver": "agent" }, "models": {},
            "sandbox": "docker", "outcome": "patch", "total": usage,
            "stages": [{ "name": "all", "seconds": 1.0, "usd": 0.0, "tokens": usage["tokens"],
                "agents": [agent("answerer-1"), agent("resolver")] }],
        });
        fs::write(run.path().join("run.json"), summary.to_string()).unwrap();
        fs::write(run.path().join("patch.diff"), "--- a\n+++ b\n").unwrap();
        store(run.path(), "answerer-1", &[acting(1, json!([]), json!({ "text": "so" }))]);
        store(run.path(), "resolver", &[acting(1, json!([]), json!({ "summary": "done" }))]);
        let last = |value: &Value| value["messages"].as_array().unwrap().last().unwrap().clone();
        let resolver = exported(run.path(), "resolver");
        assert_eq!(resolver["info"]["submission"], "--- a\n+++ b\n");
        assert_eq!(
            (&last(&resolver)["role"], &resolver["info"]["exit_status"]),
            (&json!("exit"), &json!("Submitted"))
        );
        let answerer = exported(run.path(), "answerer-1");
        assert!(answerer["info"]["submission"].as_str().unwrap().contains("\"so\""));
    }

    #[test]
    fn a_run_under_way_is_exported_as_far_as_it_is_and_not_touched() {
        let run = run_folder();
        store(run.path(), "resolver", &[example_turn(1, "a")]);
        let path = run.path().join("trajectories/resolver.jsonl");
        let mut text = fs::read(&path).unwrap();
        text.extend(b"{\"turn\": 2, \"mess");
        fs::write(&path, &text).unwrap();
        let value = exported(run.path(), "resolver");
        assert_eq!(value["info"]["exit_status"], "");
        assert_eq!(value["messages"].as_array().unwrap().len(), 2);
        assert_eq!(fs::read(&path).unwrap(), text);
    }

    #[test]
    fn only_agents_files_are_read() {
        let run = run_folder();
        fs::write(run.path().join("trajectories/notes.jsonl"), "?").unwrap();
        nix::unistd::mkfifo(&run.path().join("trajectories/resolver.jsonl"), nix::sys::stat::Mode::S_IRWXU)
            .unwrap();
        let told = export_trajectories(run.path(), &run.path().join("to")).unwrap_err().to_string();
        assert!(told.contains("holds no trajectories"), "{told}");
        assert!(!run.path().join("to").exists());
    }
}
