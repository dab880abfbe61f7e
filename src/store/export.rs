//! Exports a run's trajectories for the viewers of other programs. An export is a view: nothing is read back from
//! it, and a run that still goes on can be exported as far as it is.
//!
//! The run may be somebody else's: see [`super`] for what is read of its folder. Of a trajectory one turn at a
//! time is in memory.

mod form;

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::{domain::AgentName, method::ports::StoreError};

use super::{
    AgentExit, RunSummary,
    atomic::{self, MAX_FILE_BYTES},
    file_error, read_at_most,
    regular::HeldFolder,
    trajectory::Trajectory,
};

use form::{Exported, Work};

/// How the names of such files end; viewers look for it.
const SUFFIX: &str = ".traj.json";

const NO_RUN: &str = "holds no trajectories; name the folder of a run (its --out)";

/// Writes the trajectory of each agent of the run in the folder `run` to `to`, each atomically, and returns the
/// files. Text is as the run stored it, secrets taken out.
///
/// # Errors
///
/// Where a file of the run is a link, no regular file, too large or damaged.
pub fn export_trajectories(run: &Path, to: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let opened = found(HeldFolder::open(run)).map_err(|error| unreadable(run, &error))?;
    let run = Run { folder: opened.ok_or_else(|| file_error(run, NO_RUN))? };
    let trajectories = run.trajectories()?;
    let agents = trajectories.as_ref().map_or_else(|| Ok(Vec::new()), agents)?;
    let (Some(trajectories), false) = (trajectories, agents.is_empty()) else {
        return Err(file_error(run.folder.path(), NO_RUN));
    };
    let summary = run.summary()?;
    atomic::make_folder(to)?;
    let mut written = Vec::new();
    for (agent, name) in agents {
        let path = trajectories.path().join(&name);
        let file = trajectories.file(&name).map_err(|error| unreadable(&path, &error))?;
        let trajectory = Trajectory::look(&path, file)?;
        // An agent that was being opened when its process ended.
        let Some(opening) = trajectory.opening()? else { continue };
        let work = Work::of(&trajectory, run.ending(&agent, summary.as_ref())?)?;
        let exported = Exported::of(&opening, &trajectory, &work);
        let file = to.join(format!("{agent}{SUFFIX}"));
        atomic::write_with(&file, |to| serde_json::to_writer_pretty(to, &exported).map_err(io::Error::from))?;
        written.push(file);
    }
    Ok(written)
}

/// The agents by name, with the names of their files. Files with other names are none of ours.
fn agents(trajectories: &HeldFolder) -> Result<Vec<(AgentName, String)>, StoreError> {
    let names = trajectories.names().map_err(|error| unreadable(trajectories.path(), &error))?;
    let agent = |name: String| Some((AgentName::of_stored(name.strip_suffix(".jsonl")?)?, name));
    Ok(names.into_iter().filter_map(agent).collect())
}

/// How an agent's work ended.
#[derive(Debug, Default)]
struct Ending {
    /// `None` while the run goes on.
    exit: Option<AgentExit>,
    /// The Resolver's patch; of other agents their own submission is taken.
    patch: Option<String>,
}

struct Run {
    folder: HeldFolder,
}

impl Run {
    fn trajectories(&self) -> Result<Option<HeldFolder>, StoreError> {
        const NAME: &str = "trajectories";
        let opened = found(self.folder.folder(NAME));
        opened.map_err(|error| unreadable(&self.folder.path().join(NAME), &error))
    }

    /// `None` where the run has not ended.
    fn summary(&self) -> Result<Option<RunSummary>, StoreError> {
        let Some(text) = self.read("run.json")? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            let path = self.folder.path().join("run.json");
            file_error(&path, format!("is no run.json of this version ({error})"))
        })
    }

    fn ending(&self, agent: &AgentName, summary: Option<&RunSummary>) -> Result<Ending, StoreError> {
        let Some(summary) = summary else { return Ok(Ending::default()) };
        let mut reported = summary.stages.iter().flat_map(|stage| &stage.agents);
        let exit = reported.find(|it| it.name == agent.as_str()).map(|it| it.exit);
        let patch = if *agent == AgentName::resolver() { self.patch()? } else { None };
        Ok(Ending { exit, patch })
    }

    fn patch(&self) -> Result<Option<String>, StoreError> {
        let diff = match self.read("patch.diff")? {
            Some(diff) => Some(diff),
            None => self.read("patch.partial.diff")?,
        };
        Ok(diff.map(|diff| String::from_utf8_lossy(&diff).into_owned()))
    }

    /// `None` where there is no such file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.folder.file(name).and_then(|file| read_at_most(&file, MAX_FILE_BYTES));
        found(read).map_err(|error| unreadable(&self.folder.path().join(name), &error))
    }
}

/// What is not there is no error.
fn found<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    file_error(path, format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        method::ports::Turn,
        store::examples::{example_opening, example_turn},
    };

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

    /// Of a run whose agents all handed in something.
    fn summary() -> Value {
        let agent = |name: &str| {
            json!({ "name": name, "steps": 1, "seconds": 1.0, "usd": 0.0, "exit": "submitted",
                "tokens": { "input": 1, "cached": 0, "output": 1 } })
        };
        let usage = json!({ "seconds": 1.0, "usd": 0.0, "tokens": { "input": 1, "cached": 0, "output": 1 } });
        json!({
            "run_id": "20261130-100000-000000", "version": "0", "repo": "r", "base": "b", "issue": { "title": "t" },
            "strategy": { "knowledge": "qa", "answerer": "explore", "resolver": "agent" }, "models": {},
            "sandbox": "docker", "outcome": "patch", "total": usage,
            "stages": [{ "name": "all", "seconds": 1.0, "usd": 0.0, "tokens": usage["tokens"],
                "agents": [agent("answerer-1"), agent("resolver")] }],
        })
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
        assert_eq!(value["trajectory_format"], "mini-swe-agent-1.1");
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
        fs::write(run.path().join("run.json"), summary().to_string()).unwrap();
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

    fn refused(run: &Path) -> String {
        let to = run.join("to");
        let told = export_trajectories(run, &to).unwrap_err().to_string();
        let written = to.read_dir().map_or(0, Iterator::count);
        assert_eq!(written, 0, "something was written, though {told}");
        told.replace(run.to_str().unwrap(), "RUN")
    }

    #[test]
    fn a_folder_without_agents_is_no_run() {
        let run = run_folder();
        fs::write(run.path().join("trajectories/notes.jsonl"), "?").unwrap();
        let told = "run state: RUN: holds no trajectories; name the folder of a run (its --out)";
        assert_eq!(refused(run.path()), told);
        fs::remove_dir_all(run.path().join("trajectories")).unwrap();
        assert_eq!(refused(run.path()), told);
        let none = run.path().join("none");
        assert_eq!(refused(&none), told);
        assert!(!none.exists() && !run.path().join("to").exists());
    }

    /// Each file that is read, in turn, with a run's own in its place afterwards.
    #[test]
    fn a_link_or_a_pipe_in_a_run_is_not_read() {
        let secret = tempfile::tempdir().unwrap();
        fs::write(secret.path().join("file"), "root:x").unwrap();
        let names = ["run.json", "patch.diff", "patch.partial.diff", "trajectories/resolver.jsonl"];
        for name in names {
            let run = run_folder();
            store(run.path(), "resolver", &[example_turn(1, "a")]);
            if name != "run.json" {
                fs::write(run.path().join("run.json"), summary().to_string()).unwrap();
            }
            let path = run.path().join(name);
            let _ = fs::remove_file(&path);
            symlink(secret.path().join("file"), &path).unwrap();
            let told = refused(run.path());
            let cause = "it is a link, and links in a run's folder are not followed";
            assert_eq!(told, format!("run state: RUN/{name}: cannot be read: {cause}"));
            fs::remove_file(&path).unwrap();
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
            let told = refused(run.path());
            assert_eq!(told, format!("run state: RUN/{name}: cannot be read: it is not a regular file"));
        }
    }

    #[test]
    fn a_folder_of_trajectories_that_is_a_link_is_not_read() {
        let (run, other) = (run_folder(), run_folder());
        store(other.path(), "resolver", &[example_turn(1, "a")]);
        let path = run.path().join("trajectories");
        fs::remove_dir(&path).unwrap();
        symlink(other.path().join("trajectories"), &path).unwrap();
        let told = refused(run.path());
        assert!(
            told.starts_with("run state: RUN/trajectories: cannot be read: it is no folder, or a link"),
            "{told}"
        );
        // The run itself may be named by a link.
        symlink(other.path(), run.path().join("named")).unwrap();
        export_trajectories(&run.path().join("named"), &run.path().join("to")).unwrap();
    }

    #[test]
    fn a_file_larger_than_any_of_a_run_is_refused_and_not_read() {
        for name in ["run.json", "patch.diff", "trajectories/resolver.jsonl"] {
            let run = run_folder();
            store(run.path(), "resolver", &[example_turn(1, "a")]);
            fs::write(run.path().join("run.json"), summary().to_string()).unwrap();
            let file = fs::OpenOptions::new().create(true).append(true).open(run.path().join(name)).unwrap();
            file.set_len(20 << 30).unwrap();
            let most = if name.ends_with(".jsonl") { 1 << 30 } else { MAX_FILE_BYTES };
            let why = format!("it has 21474836480 bytes, more than the {most} that are read");
            assert_eq!(refused(run.path()), format!("run state: RUN/{name}: cannot be read: {why}"));
        }
    }
}
