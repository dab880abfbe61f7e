//! One turn's calls: run in order, each answered with an observation or with what is wrong with it.

use std::time::Duration;

use minijinja::context;
use serde_json::Value;

use crate::method::ports::{CallContext, ChatReply, Event, Finish, Message, ToolCall, ToolOutcome, Turn};

use super::{
    conversation::Conversation,
    prompt,
    run::{Agent, AgentError, Services},
};

/// The tool by which every agent ends.
const SUBMIT: &str = "submit";

/// When and how a turn acts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acting {
    /// On the clock's monotonic scale: when its commands must have ended.
    pub until: Duration,
    /// The agent's last call: nothing but a submission is taken, and whatever it holds.
    pub is_last: bool,
}

enum Called {
    Observation(String),
    Malformed(String),
    Finished(Value),
}

impl Agent {
    /// Runs what the reply calls, in order, and adds what came of it to the turn.
    pub(super) async fn act(
        &self,
        services: &Services,
        talk: &Conversation,
        reply: &ChatReply,
        turn: &mut Turn,
        acting: Acting,
    ) -> Result<(), AgentError> {
        let names: Vec<String> = talk.specs.iter().map(|spec| spec.name.clone()).collect();
        if reply.finish == Finish::Length {
            turn.format_error = Some("truncated".into());
            let error =
                prompt::render("agent/truncated.md", context! { max_tokens => self.limits.reply_tokens });
            answer_all(turn, &reply.calls, &error);
            return Ok(());
        }
        if let Some(problem) = &reply.unreadable {
            turn.format_error = Some("malformed_call".into());
            let error = prompt::render("tools/text_mode_unreadable.md", context! { problem });
            answer_all(turn, &reply.calls, &error);
            return Ok(());
        }
        if reply.calls.is_empty() {
            // Also where the model declined: no conversation may end with a reply, or it could not go on.
            turn.format_error = Some("no_call".into());
            let content = prompt::render("agent/no_call.md", context! { tools => names });
            turn.messages.push(Message::User { content });
            return Ok(());
        }
        for call in &reply.calls {
            let content = match self.call(services, talk, turn, call, &names, acting).await? {
                Called::Observation(text) => {
                    turn.observed.push(call.name.clone());
                    text
                }
                Called::Malformed(text) => text,
                Called::Finished(submission) => {
                    turn.submission = Some(submission);
                    // Every call needs its answer, those after the submission too.
                    answer_rest(turn, reply, "(submitted)");
                    return Ok(());
                }
            };
            turn.messages.push(Message::Tool { tool_call_id: call.id.clone(), content });
        }
        if turn.observed.is_empty() {
            turn.format_error = Some("malformed_call".into());
        }
        Ok(())
    }

    async fn call(
        &self,
        services: &Services,
        talk: &Conversation,
        turn: &Turn,
        call: &ToolCall,
        names: &[String],
        acting: Acting,
    ) -> Result<Called, AgentError> {
        let called = talk.specs.iter().position(|spec| spec.name == call.name);
        let Some(tool) = called.map(|index| &self.tools[index]) else {
            let content = prompt::render(
                "agent/unknown_tool.md",
                context! { tool => call.name.as_str(), tools => names.to_vec() },
            );
            return Ok(Called::Malformed(content));
        };
        if acting.is_last && call.name != SUBMIT {
            return Ok(Called::Observation(prompt::render("agent/not_run.md", context! {})));
        }
        let malformed = |problem: String| {
            let text =
                prompt::render("agent/malformed_call.md", context! { tool => call.name.as_str(), problem });
            Ok(Called::Malformed(text))
        };
        let arguments = match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments @ Value::Object(_)) => arguments,
            Ok(_) => return malformed("the arguments are not a JSON object".into()),
            Err(_) if call.arguments.trim().is_empty() => return malformed("it has no arguments".into()),
            Err(error) => return malformed(format!("the arguments are not valid JSON ({error})")),
        };
        if let Some(Value::String(command)) = arguments.get("command") {
            services.progress.report(Event::AgentRuns {
                agent: self.name.clone(),
                step: turn.turn,
                command: command.clone(),
            });
        }
        let earlier = |observed: &[String]| observed.iter().filter(|name| **name == call.name).count() as u32;
        let context = CallContext {
            turn: turn.turn,
            // There is no later call in which a submission could be mended.
            earlier_calls: earlier(&talk.observed) + earlier(&turn.observed) + u32::from(acting.is_last),
            time_left: acting.until.saturating_sub(services.clock.monotonic()),
        };
        Ok(match tool.call(arguments, context).await? {
            ToolOutcome::Observation(text) => Called::Observation(text),
            ToolOutcome::BadArguments(problem) => return malformed(problem),
            ToolOutcome::Finished(submission) => Called::Finished(submission),
        })
    }
}

fn answer_all(turn: &mut Turn, calls: &[ToolCall], text: &str) {
    if calls.is_empty() {
        turn.messages.push(Message::User { content: text.to_owned() });
    }
    for call in calls {
        turn.messages.push(Message::Tool { tool_call_id: call.id.clone(), content: text.to_owned() });
    }
}

/// Answers the calls of `reply` that have no answer yet.
pub(super) fn answer_rest(turn: &mut Turn, reply: &ChatReply, text: &str) {
    let answered = turn.messages.iter().filter(|m| matches!(m, Message::Tool { .. })).count();
    for call in reply.calls.iter().skip(answered) {
        turn.messages.push(Message::Tool { tool_call_id: call.id.clone(), content: text.to_owned() });
    }
}
