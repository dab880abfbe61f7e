//! Compaction: a conversation that no longer fits into the model's context is shortened and goes on.
//!
//! Opening and newest turns stay as they are, whole turns each, so that no call is parted from its result; the
//! middle gives way to one message with a summary, which the same model is asked for. The stored trajectory
//! keeps every turn: the compaction is a turn of its own in it, and a resumed run reads the conversation in the
//! same way. A conversation that overflows again soon after it was shortened is over: each turn would be paid for
//! by a summary of it.

use minijinja::context;
use serde_json::Value;

use crate::{
    domain::{Account, Money},
    method::ports::{ChatRequest, Compaction, Event, Message, Turn},
};

use super::{
    conversation::Conversation,
    limits::Exit,
    prompt,
    run::{Agent, AgentError, Asked, Services},
};

/// Most tokens of a summary.
const SUMMARY_TOKENS: u32 = 4_096;
/// For the run's notes.
const OVERFULL: &str =
    "its conversation does not fit into the model's context; a model with a larger one would go on";
/// Turns between two compactions, at least.
const APART: u32 = 3;
/// Where no summary can be had: the last commands that are listed, and characters of each.
const LISTED: (usize, usize) = (40, 200);

impl Agent {
    /// Shortens the conversation. `Some` where that is no use: the agent ends, and its work is kept.
    pub(super) async fn compact(
        &self,
        services: &Services,
        talk: &mut Conversation,
    ) -> Result<Option<Exit>, AgentError> {
        let is_hopeless = talk.since_compaction.is_some_and(|turns| turns < APART);
        let keep_from = talk.keep_from().filter(|_| !is_hopeless);
        let Some(keep_from) = keep_from else {
            talk.note([OVERFULL.to_owned()]);
            return Ok(Some(Exit::Failed));
        };
        let started = services.clock.monotonic();
        let number = talk.last + 1;
        let mut messages = talk.messages_before(keep_from);
        messages.push(Message::User { content: prompt::render("agent/compact.md", context! {}) });
        let request = self.request(number, messages, talk);
        let most = self.limits.reply_tokens.min(SUMMARY_TOKENS);
        let request = ChatRequest { max_tokens: Some(most), ..request };
        let until = self.end(services, talk);
        let mut account = Account::default();
        let summary = match self.ask(services, &request, until, false).await {
            Ok(Asked::Cancelled) => return Ok(Some(Exit::Cancelled)),
            Ok(Asked::Reply(reply)) => {
                let usd = self.model.price().map_or(Money::ZERO, |price| reply.cost(price));
                account = Account { steps: 1, seconds: 0.0, usd, tokens: reply.tokens };
                talk.note(reply.notes);
                reply.text.filter(|text| !text.trim().is_empty())
            }
            // Whatever keeps the model from summing up, the commands can be listed without it.
            Ok(Asked::Overflow | Asked::Reached(_)) | Err(_) => None,
        };
        account.seconds = (services.clock.monotonic() - started).as_secs_f64();
        let compaction = Compaction { keep_from, summary: worded(summary, talk, keep_from) };
        let turn = Turn::of_compaction(number, compaction, account, services.clock.now());
        services.store.append_turn(&self.name, &turn).await?;
        talk.add(turn);
        talk.note(["its conversation outgrew the model's context and was shortened".to_owned()]);
        services.progress.report(Event::Spent { total: services.budget.spent() });
        Ok(None)
    }
}

fn worded(summary: Option<String>, talk: &Conversation, keep_from: u32) -> String {
    let mut commands = Vec::new();
    if summary.is_none() {
        commands = talk.turns_before(keep_from).flat_map(commands_of).collect();
    }
    let left_out = commands.len().saturating_sub(LISTED.0);
    let commands: Vec<_> =
        commands.into_iter().skip(left_out).map(|(text, exit)| context! { text, exit }).collect();
    let summary = summary.map(|text| text.trim().to_owned());
    prompt::render("agent/compacted.md", context! { summary, commands, left_out })
}

/// The commands of a turn, each on one line, with what their observations begin with.
fn commands_of(turn: &[Message]) -> Vec<(String, String)> {
    let calls = turn.iter().filter_map(|message| match message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    let observed = |id: &str| {
        turn.iter().find_map(|message| match message {
            Message::Tool { tool_call_id, content } if tool_call_id == id => content.lines().next(),
            _ => None,
        })
    };
    calls
        .flatten()
        .filter_map(|call| {
            let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
            let command = arguments.get("command")?.as_str()?;
            let words = command.split_whitespace().collect::<Vec<_>>().join(" ");
            let exit = observed(&call.id).unwrap_or("[no result]");
            Some((words.chars().take(LISTED.1).collect(), exit.chars().take(LISTED.1).collect()))
        })
        .collect()
}
