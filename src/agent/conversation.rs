//! What a conversation has come to, rebuilt turn by turn in the same way while it goes on and on resume.

use minijinja::context;
use serde_json::Value;

use crate::{
    domain::Account,
    method::ports::{Message, ToolSpec, Turn},
};

use super::{limits::Reached, paid::size, prompt};

#[derive(Default)]
pub(super) struct Conversation {
    /// Of the agent's tools, in their order.
    pub specs: Vec<ToolSpec>,
    opening: Vec<Message>,
    /// Stands in the place of the turns that a compaction took out.
    summary: Option<Message>,
    /// The turns that stand as they were, by their numbers.
    turns: Vec<(u32, Vec<Message>)>,
    /// Number of the last turn, compactions counted; 0 before the first.
    pub last: u32,
    pub account: Account,
    /// Turns in a row with a format error.
    pub format_errors: u32,
    pub submission: Option<Value>,
    /// See [`Turn::observed`], of all turns.
    pub observed: Vec<String>,
    pub notes: Vec<String>,
    /// Whether it was told that its end is near.
    pub warned: bool,
    pub reached: Option<Reached>,
    /// Whether it had its last call.
    pub had_last_call: bool,
    /// Turns since the last compaction; `None` before the first.
    pub since_compaction: Option<u32>,
}

impl Conversation {
    pub fn with(specs: Vec<ToolSpec>) -> Self {
        Self { specs, ..Self::default() }
    }

    pub fn open(&mut self, opening: Vec<Message>) {
        self.opening = opening;
    }

    pub fn add(&mut self, turn: Turn) {
        self.last = turn.turn;
        self.account += turn.account;
        self.since_compaction = match turn.compaction {
            Some(_) => Some(0),
            None => self.since_compaction.map(|turns| turns + 1),
        };
        if let Some(compaction) = turn.compaction {
            self.turns.retain(|(number, _)| *number >= compaction.keep_from);
            self.summary = Some(Message::User { content: compaction.summary });
            return;
        }
        self.observed.extend(turn.observed);
        self.format_errors = if turn.format_error.is_some() { self.format_errors + 1 } else { 0 };
        self.submission = turn.submission;
        // Only a last call begins with what the agent was told.
        self.had_last_call |= matches!(turn.messages.first(), Some(Message::User { .. }));
        self.warned |= turn.messages.last().is_some_and(is_warning);
        self.turns.push((turn.turn, turn.messages));
    }

    /// Each once.
    pub fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// As the model reads it.
    pub fn messages(&self) -> Vec<Message> {
        self.messages_before(u32::MAX)
    }

    /// The same without the turns from `number` on.
    pub fn messages_before(&self, number: u32) -> Vec<Message> {
        let turns = self.turns.iter().filter(|(turn, _)| *turn < number);
        let (opening, summary) = (self.opening.iter(), self.summary.iter());
        opening.chain(summary).chain(turns.flat_map(|(_, messages)| messages)).cloned().collect()
    }

    /// Messages of the turns before `number` that stand as they were.
    pub fn turns_before(&self, number: u32) -> impl Iterator<Item = &[Message]> {
        self.turns.iter().filter(move |(turn, _)| *turn < number).map(|(_, messages)| messages.as_slice())
    }

    /// From which turn on a compaction keeps everything: the newest turns that together are at most a quarter of
    /// the conversation, and the newest one alone up to a half. `None` where no turn is there to be taken out.
    pub fn keep_from(&self) -> Option<u32> {
        let sizes: Vec<(u32, usize)> = (self.turns.iter())
            .map(|(number, messages)| (*number, messages.iter().map(size).sum()))
            .collect();
        let all: usize = sizes.iter().map(|(_, size)| size).sum();
        let (newest, _) = sizes.last()?;
        let mut keep_from = newest + 1;
        let mut kept = 0;
        for (number, size) in sizes.iter().skip(1).rev() {
            kept += size;
            let most = if number == newest { all / 2 } else { all / 4 };
            if kept > most {
                break;
            }
            keep_from = *number;
        }
        Some(keep_from)
    }
}

/// What an agent is told once when its end is near.
pub(super) fn warning() -> String {
    prompt::render("agent/nearly_over.md", context! {})
}

fn is_warning(message: &Message) -> bool {
    match message {
        Message::User { content } | Message::Tool { content, .. } => content.ends_with(&warning()),
        Message::System { .. } | Message::Assistant { .. } => false,
    }
}
