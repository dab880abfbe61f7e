//! Whether a patch resolves its instance: asked of a program that the operator names.
//!
//! The command is split into words as a shell would, and started without one; an instance's values stand
//! within single words. It runs on the host with the operator's own environment.

use std::{
    fs::File,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

use super::{
    instances::InstanceId,
    template::{Template, TemplateError},
};
use crate::method::ports::Clock;

/// The end of its output is read, up to this many bytes.
const KEPT_BYTES: usize = 1 << 20;
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
    /// All that it said.
    pub reply: Value,
}

/// Names a patch.
pub fn digest(patch: &[u8]) -> String {
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
    #[error("the command needs {{patch}}, the file that it is to score")]
    NoPatch,
}

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum Unscored {
    #[error("the scorer cannot be started: {0}")]
    Start(io::Error),
    #[error("the scorer did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the scorer failed: {0}")]
    Failed(ExitStatus),
    #[error("the scorer's output cannot be read: {0}")]
    Output(io::Error),
    #[error(
        "the last line of the scorer's output that is JSON must be an object with `resolved`, true or false"
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

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Scores a patch; what the command says on stderr goes into `log`.
    pub async fn score(
        &self,
        id: &InstanceId,
        patch: (&Path, &[u8]),
        log: &Path,
        clock: &dyn Clock,
        cancel: &CancellationToken,
    ) -> Result<Score, Unscored> {
        let (path, content) = patch;
        let path = path.to_string_lossy();
        let value = |name: &str| Some(if name == "patch" { &*path } else { id.as_str() });
        let words: Vec<String> = self.words.iter().filter_map(|word| word.fill(value)).collect();
        let (program, arguments) =
            words.split_first().ok_or_else(|| Unscored::Start(io::ErrorKind::InvalidInput.into()))?;
        let started = clock.monotonic();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log).map_err(Unscored::Output)?)
            // So that all of it can be ended, and that Ctrl-C reaches it through us alone.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(Unscored::Start)?;
        let output = child.stdout.take().expect("stdout is piped");
        let ended = tokio::select! {
            both = async { (end_of(output).await, child.wait().await) } => Some(both),
            () = tokio::time::sleep(self.limit) => None,
            () = cancel.cancelled() => {
                stop(&mut child).await;
                return Err(Unscored::Cancelled);
            }
        };
        let Some((output, status)) = ended else {
            stop(&mut child).await;
            return Err(Unscored::TimedOut(self.limit));
        };
        let status = status.map_err(Unscored::Output)?;
        if !status.success() {
            return Err(Unscored::Failed(status));
        }
        let (resolved, reply) = read_reply(&output.map_err(Unscored::Output)?).ok_or(Unscored::NotAScore)?;
        let seconds = (clock.monotonic() - started).as_secs_f64();
        Ok(Score { patch_sha256: digest(content), scorer: self.text.clone(), resolved, seconds, reply })
    }
}

/// The end of a stream that is read to its end.
async fn end_of(mut from: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match from.read(&mut chunk).await? {
            0 => return Ok(kept),
            count => kept.extend_from_slice(&chunk[..count]),
        }
        if kept.len() > 2 * KEPT_BYTES {
            kept.drain(..kept.len() - KEPT_BYTES);
        }
    }
}

/// Ends the scorer and all that it started, politely first: it may have a container to remove.
async fn stop(child: &mut Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let Some(group) = group else { return };
    // It may have ended by itself in between, which is what is wanted.
    let _ = killpg(group, Signal::SIGTERM);
    let _ = tokio::time::timeout(GRACE, child.wait()).await;
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait().await;
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

    #[tokio::test]
    async fn of_much_output_the_end_is_kept() {
        let mut much = vec![b'x'; 5 * KEPT_BYTES];
        much.extend_from_slice(b"\n{\"resolved\": true}\n");
        let kept = end_of(much.as_slice()).await.unwrap();
        assert!(kept.len() <= 2 * KEPT_BYTES + 1);
        assert!(read_reply(&kept).unwrap().0);
    }
}
