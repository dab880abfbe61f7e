//! Whether a patch resolves its instance: asked of a program that the operator names.
//!
//! The command is split into words as a shell would, and started without one; an instance's values stand
//! within single words. It runs on the host with the operator's own environment.

use std::{fs, io, path::Path, process::ExitStatus, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    instances::InstanceId,
    program::{KEPT_BYTES, Kept, Program},
    template::{Template, TemplateError},
};
use crate::{method::ports::Clock, store::Redactor};

/// How long a scorer that is told to end may take.
const GRACE: Duration = Duration::from_secs(5);

/// What a scorer found. Stored beside the run, for as long as patch and scorer are the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub patch_sha256: String,
    /// The command, as it was given.
    pub scorer: String,
    pub resolved: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// All that it said in that line.
    pub reply: Value,
}

impl Score {
    /// As it is stored: without secrets, and no larger than [`KEPT_BYTES`].
    pub fn to_store(&self, redact: &Redactor) -> Self {
        let mut stored =
            Self { scorer: redact(&self.scorer), reply: redacted(&self.reply, redact), ..self.clone() };
        if super::folder::json(&stored).len() > KEPT_BYTES {
            let left_out = format!("all else, since it is larger than {} MiB", KEPT_BYTES >> 20);
            stored.reply = json!({ "resolved": self.resolved, "left_out": left_out });
        }
        stored
    }

    /// Whether a stored one is the score of this patch, by this scorer; by any where none is given.
    pub fn is_of(&self, patch: &[u8], scorer: Option<&Scorer>, redact: &Redactor) -> bool {
        scorer.is_none_or(|scorer| redact(&scorer.text) == self.scorer) && self.patch_sha256 == digest(patch)
    }
}

/// What others wrote, names of fields included.
fn redacted(value: &Value, redact: &Redactor) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        Value::Array(items) => items.iter().map(|item| redacted(item, redact)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (redact(name), redacted(field, redact))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// What came of asking a scorer.
#[derive(Debug)]
pub struct Asked {
    pub score: Result<Score, Unscored>,
    /// The end of what it said on stderr.
    pub said: Kept,
}

/// Names a patch.
fn digest(patch: &[u8]) -> String {
    hex::encode(Sha256::digest(patch))
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScorerError {
    #[error("the command cannot be split into words: a quote or a backslash has no end")]
    Words,
    #[error("the command is empty")]
    Empty,
    #[error(transparent)]
    Place(#[from] TemplateError),
    #[error("there is no program `{0}`: name one of `PATH`, or its path")]
    NoProgram(String),
    #[error("the command needs {{patch}}, the file that it is to score")]
    NoPatch,
}

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum Unscored {
    #[error("no copy of the patch can be made for the scorer: {0}")]
    Copy(io::Error),
    #[error("the scorer `{program}` cannot be started: {error}")]
    Start { program: String, error: io::Error },
    #[error("the scorer did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the scorer failed: {0}")]
    Failed(ExitStatus),
    #[error("how the scorer ended cannot be found out: {0}")]
    Lost(io::Error),
    #[error(
        "the last line of the scorer's output that is JSON must be an object with `resolved`, true or false (its \
         last {} MiB are read)", KEPT_BYTES >> 20
    )]
    NotAScore,
    #[error("cancelled")]
    Cancelled,
}

/// A scorer's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scorer {
    text: String,
    words: Vec<Template>,
    /// Wall clock of one call.
    limit: Duration,
}

impl Scorer {
    /// `{instance_id}` and `{patch}`, a path, stand for a run's values.
    pub fn parse(text: &str, limit: Duration) -> Result<Self, ScorerError> {
        let words = shlex::split(text).ok_or(ScorerError::Words)?;
        let words = words.iter().map(|word| Template::parse(word, &["instance_id", "patch"]));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        if words.first().is_none_or(|program| program.text().is_empty()) {
            return Err(ScorerError::Empty);
        }
        if !words.iter().any(|word| word.names("patch")) {
            return Err(ScorerError::NoPatch);
        }
        Ok(Self { text: text.to_owned(), words, limit })
    }

    /// Whether its program is there, so that nobody pays for runs that cannot be scored. `path` is the variable.
    pub fn check(&self, path: Option<&str>) -> Result<(), ScorerError> {
        let program = self.words[0].text();
        let is_there = if program.contains(['/', '{']) {
            program.contains('{') || Path::new(program).is_file()
        } else {
            std::env::split_paths(path.unwrap_or_default()).any(|folder| folder.join(program).is_file())
        };
        if is_there { Ok(()) } else { Err(ScorerError::NoProgram(program.to_owned())) }
    }

    /// Scores a patch. The scorer gets a copy of its own: whatever it does to that, the patch is the one that ran.
    pub async fn score(
        &self,
        id: &InstanceId,
        patch: &[u8],
        clock: &dyn Clock,
        cancel: &CancellationToken,
    ) -> Asked {
        let nothing = |why| Asked { score: Err(why), said: Kept::default() };
        let copy = tempfile::Builder::new().prefix("acquire-score-").tempdir().and_then(|folder| {
            fs::write(folder.path().join("patch.diff"), patch)?;
            Ok(folder)
        });
        let copy = match copy {
            Ok(copy) => copy,
            Err(error) => return nothing(Unscored::Copy(error)),
        };
        let path = copy.path().join("patch.diff");
        let path = path.to_string_lossy();
        let value = |name: &str| Some(if name == "patch" { &*path } else { id.as_str() });
        let words: Vec<String> = self.words.iter().filter_map(|word| word.fill(value)).collect();
        let started = clock.monotonic();
        let program = match words.split_first() {
            Some((program, arguments)) => Program::start(program, arguments),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        let mut program = match program {
            Ok(program) => program,
            Err(error) => {
                return nothing(Unscored::Start { program: self.words[0].text().to_owned(), error });
            }
        };
        let ended = self.wait(&mut program, cancel).await;
        let [output, said] = program.end();
        let score = ended.and_then(|()| {
            let (resolved, reply) = read_reply(&output.bytes).ok_or(Unscored::NotAScore)?;
            let seconds = (clock.monotonic() - started).as_secs_f64();
            Ok(Score { patch_sha256: digest(patch), scorer: self.text.clone(), resolved, seconds, reply })
        });
        Asked { score, said }
    }

    /// Until it has ended well.
    async fn wait(&self, program: &mut Program, cancel: &CancellationToken) -> Result<(), Unscored> {
        let why = tokio::select! {
            biased;
            () = cancel.cancelled() => Unscored::Cancelled,
            status = program.wait() => return match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(Unscored::Failed(status)),
                Err(error) => Err(Unscored::Lost(error)),
            },
            () = tokio::time::sleep(self.limit) => Unscored::TimedOut(self.limit),
        };
        program.stop(GRACE).await;
        Err(why)
    }
}

fn read_reply(output: &[u8]) -> Option<(bool, Value)> {
    let text = String::from_utf8_lossy(output);
    let last = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line.trim()).ok())?;
    Some((last.get("resolved")?.as_bool()?, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Scorer::parse(text, GRACE).unwrap_err().to_string()
    }

    #[test]
    fn s_15_a_scorer_is_split_into_words_before_any_value_stands_in_it() {
        let scorer = Scorer::parse("python3 'my score.py' --id={instance_id} {patch}", GRACE).unwrap();
        let value = |name: &str| Some(if name == "patch" { "/o/a b;x.diff" } else { "id" });
        let words: Vec<String> = scorer.words.iter().filter_map(|word| word.fill(value)).collect();
        assert_eq!(words, ["python3", "my score.py", "--id=id", "/o/a b;x.diff"]);
        insta::assert_snapshot!(refused("score 'x {patch}"), @"the command cannot be split into words: a quote or a backslash has no end");
        insta::assert_snapshot!(refused(" "), @"the command is empty");
        insta::assert_snapshot!(refused("score {instance_id}"), @"the command needs {patch}, the file that it is to score");
        insta::assert_snapshot!(refused("score {id} {patch}"), @r#""{id}": there is no {id}; there are {instance_id}, {patch}"#);
    }

    #[test]
    fn the_last_line_that_is_json_is_the_score() {
        let resolved = |text: &str| read_reply(text.as_bytes()).map(|(resolved, _)| resolved);
        assert_eq!(
            resolved("{\"resolved\": false}\nbuilding\n{\"resolved\": true, \"x\": 1}\ndone\n"),
            Some(true)
        );
        assert_eq!(resolved("{\"resolved\": true}\n{\"resolved\": \"yes\"}\n"), None);
        assert_eq!(resolved("{\"resolved\": true}\n3\n"), None);
        assert_eq!(resolved("resolved"), None);
        assert_eq!(resolved(""), None);
    }

    #[test]
    fn s_33_a_score_is_stored_without_secrets_and_never_large() {
        let redact: Redactor = std::sync::Arc::new(|text: &str| text.replace("hunter2", "***"));
        let reply = json!({"resolved": true, "log": ["it is hunter2"], "hunter2": 1});
        let scorer = Scorer::parse("score --key hunter2 {patch}", GRACE).unwrap();
        let score = |reply| Score {
            patch_sha256: digest(b"p"),
            scorer: scorer.text.clone(),
            resolved: true,
            seconds: 1.0,
            reply,
        };
        let stored = score(reply).to_store(&redact);
        assert_eq!(stored.reply, json!({"resolved": true, "log": ["it is ***"], "***": 1}));
        assert_eq!(stored.scorer, "score --key *** {patch}");
        assert!(stored.is_of(b"p", Some(&scorer), &redact) && stored.is_of(b"p", None, &redact));
        assert!(!stored.is_of(b"q", None, &redact));
        let other = Scorer::parse("other {patch}", GRACE).unwrap();
        assert!(!stored.is_of(b"p", Some(&other), &redact));

        // Written for people, each number has a line of its own.
        let large = score(json!({"resolved": true, "all": vec![0; 1 << 18]})).to_store(&redact);
        assert_eq!(
            large.reply,
            json!({"resolved": true, "left_out": "all else, since it is larger than 1 MiB"})
        );
    }
}
