//! The form of mini-swe-agent 2 (`mini-swe-agent-1.1`), which its inspector and other viewers of agents' work
//! open: messages in the shape of OpenAI's chat completions, with what is known beside them under `extra`.

use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeSeq as _},
};
use serde_json::{Value, json};

use crate::{
    domain::Account,
    method::ports::{Message, Opening, StoreError, ToolCall, Turn},
};

use super::{AgentExit, Ending, Trajectory};

/// As viewers recognise the form.
const FORMAT: &str = "mini-swe-agent-1.1";

/// What all turns of an agent came to.
pub struct Work {
    account: Account,
    /// `None` while the run goes on.
    exit: Option<AgentExit>,
    submission: String,
}

impl Work {
    pub fn of(trajectory: &Trajectory, ending: Ending) -> Result<Self, StoreError> {
        let mut account = Account::default();
        let mut last = None;
        for turn in trajectory.turns() {
            let turn = turn?;
            account += turn.account;
            last = Some(turn);
        }
        let submission = ending.patch.or_else(|| submitted(&last?)).unwrap_or_default();
        Ok(Self { account, exit: ending.exit, submission })
    }

    fn exit_status(&self) -> &'static str {
        self.exit.map_or("", exit_status)
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

/// What an agent other than the Resolver handed in; the Questioner just says it.
fn submitted(turn: &Turn) -> Option<String> {
    match (&turn.submission, turn.messages.first()) {
        (Some(submission), _) => {
            Some(serde_json::to_string_pretty(submission).expect("a JSON value can be written as text"))
        }
        (None, Some(Message::Assistant { content, tool_calls, .. })) if tool_calls.is_empty() => {
            content.clone()
        }
        _ => None,
    }
}

/// A trajectory in the form. Its turns are read while it is written.
#[derive(Serialize)]
pub struct Exported<'a> {
    info: Info<'a>,
    messages: Messages<'a>,
    trajectory_format: &'static str,
}

#[derive(Serialize)]
struct Info<'a> {
    model_stats: Value,
    config: Value,
    acquire_version: &'static str,
    exit_status: &'static str,
    submission: &'a str,
}

impl<'a> Exported<'a> {
    pub fn of(opening: &'a Opening, trajectory: &'a Trajectory, work: &'a Work) -> Self {
        let Account { usd, steps, .. } = work.account;
        let info = Info {
            model_stats: json!({ "instance_cost": usd.usd(), "api_calls": steps }),
            config: json!({
                "agent": { "name": opening.agent },
                "agent_type": format!("acquire.{}", opening.agent),
                "model": { "model_name": opening.model },
            }),
            acquire_version: env!("CARGO_PKG_VERSION"),
            exit_status: work.exit_status(),
            submission: &work.submission,
        };
        Self { info, messages: Messages { opening, trajectory, work }, trajectory_format: FORMAT }
    }
}

struct Messages<'a> {
    opening: &'a Opening,
    trajectory: &'a Trajectory,
    work: &'a Work,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for it in &self.opening.messages {
            list.serialize_element(&message(it, json!({})))?;
        }
        for turn in self.trajectory.turns() {
            let turn = turn.map_err(S::Error::custom)?;
            for it in &turn.messages {
                list.serialize_element(&message(it, extra(it, &turn)))?;
            }
            if let Some(shortened) = &turn.compaction {
                let extra = json!({
                    "timestamp": timestamp(&turn),
                    "compaction": { "keep_from": shortened.keep_from },
                });
                let said = json!({ "role": "user", "content": shortened.summary, "extra": extra });
                list.serialize_element(&said)?;
            }
        }
        if self.work.exit.is_some() {
            list.serialize_element(&Exit::of(self.work))?;
        }
        list.end()
    }
}

/// The last message: how it ended.
#[derive(Serialize)]
struct Exit<'a> {
    role: &'static str,
    content: &'a str,
    extra: ExitExtra<'a>,
}

#[derive(Serialize)]
struct ExitExtra<'a> {
    exit_status: &'static str,
    submission: &'a str,
}

impl<'a> Exit<'a> {
    fn of(work: &'a Work) -> Self {
        let submission = &work.submission;
        let extra = ExitExtra { exit_status: work.exit_status(), submission };
        Self { role: "exit", content: submission, extra }
    }
}

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
