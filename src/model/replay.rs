//! Gives recorded replies in place of a model.

use std::{collections::HashMap, path::Path, time::Duration};

use async_trait::async_trait;
use serde_json::Value;

use super::{
    digest::Digest,
    record::{Header, Line, RecordingError},
};
use crate::{
    domain::Price,
    method::ports::{ChatModel, ChatReply, ChatRequest, ModelError},
};

/// What happens when a request is not the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// An error that names the part which differs, so that a changed or emptied prompt cannot pass a test.
    Strict,
    /// The reply is given all the same, with a note; past the last recorded turn of an agent that one again. For
    /// people who try something out.
    Lenient,
}

/// A model that answers from a recording.
#[derive(Debug)]
pub struct Replayer {
    source: String,
    header: Option<Header>,
    replies: HashMap<(String, u32), Line>,
    strictness: Strictness,
    delay: Duration,
}

impl Replayer {
    /// Takes the recording's text; `source` is what errors call it. A last line that a kill left half-written
    /// is not there.
    pub fn parse(source: &Path, text: &str, strictness: Strictness) -> Result<Self, RecordingError> {
        let mut header = None;
        let mut replies = HashMap::new();
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let whole = line.ends_with('\n');
            let value = match serde_json::from_str::<Value>(line) {
                _ if line.trim().is_empty() => continue,
                Err(_) if !whole => break,
                other => other,
            };
            let read = value.and_then(|value| {
                if number == 1 && value.get("agent").is_none() {
                    header = Some(serde_json::from_value(value)?);
                } else {
                    let line: Line = serde_json::from_value(value)?;
                    replies.insert((line.agent.clone(), line.turn), line);
                }
                Ok(())
            });
            read.map_err(|error| RecordingError {
                path: source.to_owned(),
                reason: format!("line {number} is no recorded reply: {error}"),
            })?;
        }
        let source = source.display().to_string();
        Ok(Self { source, header, replies, strictness, delay: Duration::ZERO })
    }

    /// Waits this long before each reply, as a model does.
    pub fn with_delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Where the replies come from, if the recording says.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    fn missing(&self, request: &ChatRequest) -> ModelError {
        let (agent, turn) = (&request.agent, request.turn);
        let recorded = self.replies.keys().filter(|(name, _)| name == agent.as_str()).count();
        ModelError::Replay(format!(
            "{}: there is no reply for agent {agent}, turn {turn} ({recorded} of its turns are recorded). Record the run anew",
            self.source
        ))
    }
}

#[async_trait]
impl ChatModel for Replayer {
    fn name(&self) -> &str {
        self.header.as_ref().map_or("recorded", |header| &header.recorded_with)
    }

    fn price(&self) -> Option<Price> {
        self.header.as_ref()?.price
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let (agent, turn) = (request.agent.as_str(), request.turn);
        let recorded = |turn| self.replies.get(&(agent.to_owned(), turn));
        let line = match (recorded(turn), self.strictness) {
            (Some(line), _) => line,
            (None, Strictness::Strict) => return Err(self.missing(request)),
            // Where the run goes another way than the recorded one, its last word is its word.
            (None, Strictness::Lenient) => {
                (1..turn).rev().find_map(recorded).ok_or_else(|| self.missing(request))?
            }
        };
        let mut reply = line.response.clone();
        if line.turn != turn {
            reply.notes.push(format!(
                "{}: there is no reply for agent {agent}, turn {turn}; that of turn {} was taken again",
                self.source, line.turn
            ));
        }
        let differences = Digest::of(request).differences(&line.digest).join(" and ");
        if !differences.is_empty() {
            let what = format!(
                "{}: the reply for agent {agent}, turn {turn} was recorded for another request, which differs in its {differences}",
                self.source
            );
            match self.strictness {
                Strictness::Strict => {
                    return Err(ModelError::Replay(format!(
                        "{what}. Record the run anew, or replay leniently"
                    )));
                }
                Strictness::Lenient => reply.notes.push(what),
            }
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        Ok(reply)
    }
}
