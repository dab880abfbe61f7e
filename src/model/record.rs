//! Records what models reply, so that a run can be replayed offline.
//!
//! A recording is JSON lines: a header, then `{agent, turn, digest, response}` for each reply. A line is
//! there whole or not at all, also after a kill. A run that was resumed may record an agent's turn again: the
//! last line of a turn counts, since the conversation went on with it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::digest::Digest;
use crate::{
    domain::Price,
    method::ports::{ChatModel, ChatReply, ChatRequest, ModelError},
};

/// The first line of a recording: where its replies come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the model, or of the models.
    pub recorded_with: String,
    /// UTC.
    pub at: Timestamp,
    /// For people: what was recorded, and how.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The model's price when it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// One recorded reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub agent: String,
    pub turn: u32,
    pub digest: String,
    pub response: ChatReply,
}

/// A recording that cannot be written or read: which file, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("recorded replies {}: {reason}", .path.display())]
pub struct RecordingError {
    pub path: PathBuf,
    pub reason: String,
}

/// A file that replies are appended to. All models of a run share one.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: Mutex<Tail>,
}

#[derive(Debug)]
struct Tail {
    file: File,
    /// Where the last whole line ends.
    end: u64,
}

impl Recording {
    /// Goes on with the recording in a file that can be read and written, or begins it with this header where the
    /// file is empty. A line that a kill left half-written is cut off. `path` is what errors call the file.
    pub fn on(mut file: File, path: &Path, header: &Header) -> Result<Self, RecordingError> {
        let failed = |error: io::Error| RecordingError { path: path.to_owned(), reason: error.to_string() };
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline as u64 + 1);
        file.set_len(end).map_err(failed)?;
        let mut tail = Tail { file, end };
        if end == 0 {
            tail.append(header).map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(tail) })
    }

    fn append(&self, line: &Line) -> Result<(), RecordingError> {
        // A panic while the lock was held leaves `end` before what it wrote, which the next line overwrites.
        let mut tail = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        tail.append(line)
            .map_err(|error| RecordingError { path: self.path.clone(), reason: error.to_string() })
    }
}

impl Tail {
    /// Appends one line and waits until the disk has it; after a failure the file is as before.
    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let written = self.file.seek(SeekFrom::Start(self.end)).and_then(|_| self.file.write_all(&text));
        if let Err(error) = written {
            self.file.set_len(self.end)?;
            return Err(error);
        }
        self.end += text.len() as u64;
        self.file.sync_data()
    }
}

/// Takes secrets out of text on its way to the file.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A model whose replies are recorded. Failed calls are not.
pub struct Recorder {
    model: Arc<dyn ChatModel>,
    recording: Arc<Recording>,
    redact: Redact,
}

impl Recorder {
    pub fn new(model: Arc<dyn ChatModel>, recording: Arc<Recording>, redact: Redact) -> Self {
        Self { model, recording, redact }
    }
}

/// What is recorded of a reply: the run itself goes on with the reply as it came.
fn redacted(reply: &ChatReply, redact: &Redact) -> ChatReply {
    let mut reply = reply.clone();
    reply.text = reply.text.map(|text| redact(&text));
    reply.provider.take_if(|state| holds_secret(state, redact));
    for call in &mut reply.calls {
        call.arguments = redact(&call.arguments);
        call.provider.take_if(|state| holds_secret(state, redact));
    }
    reply
}

/// A state that is changed is worth nothing to its provider, so it is left out as a whole.
fn holds_secret(state: &Value, redact: &Redact) -> bool {
    match state {
        Value::String(text) => redact(text) != *text,
        Value::Array(items) => items.iter().any(|item| holds_secret(item, redact)),
        Value::Object(fields) => fields.values().any(|field| holds_secret(field, redact)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[async_trait]
impl ChatModel for Recorder {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let mut reply = self.model.chat(request).await?;
        let line = Line {
            agent: request.agent.to_string(),
            turn: request.turn,
            digest: Digest::of(request).to_string(),
            response: redacted(&reply, &self.redact),
        };
        let recording = Arc::clone(&self.recording);
        let written = tokio::task::spawn_blocking(move || recording.append(&line)).await;
        let failure = match written {
            Ok(Ok(())) => return Ok(reply),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // The reply is paid for: the run goes on with it, and says that the recording has a hole.
        reply.notes.push(format!("this reply is not recorded: {failure}"));
        Ok(reply)
    }
}
