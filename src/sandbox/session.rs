//! The host's side of the conversation with a supervisor, over any pair of streams.
//!
//! Requests and answers alternate, so a request that is broken off half way (its future was dropped, a
//! stream failed, the timer fired) leaves the stream in an unknown place. The session is then lost: every
//! later call says so, and the engine's part is to end the sandbox. The supervisor is ours, yet it runs
//! among hostile processes, so everything it sends is limited and checked here.

mod turn;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Mutex, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::turn::{Ahead, Channel, Turn, lost, unexpected};
use super::wire::{self, Reference, Reply, Request, Stage};
use crate::{
    domain::{Change, TreePath},
    method::ports::{CommandExit, CommandLimits, CommandOutcome, Listed, SandboxError, Since},
};

/// What the host adds to a command's timeout before it gives the sandbox up (R-EX-6).
const HOST_GRACE: Duration = Duration::from_secs(5);
/// How long `git update-index` may take after the fill, on top of the session's patience.
const PREPARE_GRACE: Duration = Duration::from_secs(60);
/// Longest command text, in bytes. Linux itself refuses an argument of 128 KiB, which is an outcome.
const MAX_COMMAND: usize = 8 << 20;

/// One entry of the workspace's first content. Base and git entries come first, in any order among
/// themselves; saved changes and removals follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fill {
    /// From the tree of the base commit; no part of the path may be `.git`.
    Base(Change),
    /// The host's own git files; paths are below `.git`, such as `HEAD`.
    Git(Change),
    /// A change saved earlier.
    Saved(Change),
    /// A removal saved earlier. What is gone already, or is a directory now, is left as it is.
    Removed(TreePath),
}

/// What the fill wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// What one sandbox may use up over all its commands (R-EX-7).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandBudget {
    /// Default 2,000.
    pub commands: u64,
    /// Output that was produced, dropped bytes included. Default 64 GiB.
    pub output_bytes: u64,
    /// Since the sandbox was opened. Default 2 hours.
    pub seconds: u64,
}

impl Default for CommandBudget {
    fn default() -> Self {
        Self { commands: 2_000, output_bytes: 64 << 30, seconds: 2 * 60 * 60 }
    }
}

/// A running supervisor.
pub(crate) struct Session {
    channel: Mutex<Channel>,
    hung_up: CancellationToken,
    /// Longest silence that is taken for life.
    patience: Duration,
    budget: CommandBudget,
    started: Instant,
    commands: AtomicU64,
    output_bytes: AtomicU64,
}

impl Session {
    /// Waits until the supervisor is ready. `patience` is the longest that it may take for this and for
    /// every answer other than a command's.
    pub(crate) async fn start<R, W>(
        from_supervisor: R,
        to_supervisor: W,
        patience: Duration,
    ) -> Result<Self, SandboxError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let session = Self {
            channel: Mutex::new(Channel::new(from_supervisor, to_supervisor)),
            hung_up: CancellationToken::new(),
            patience,
            budget: CommandBudget::default(),
            started: Instant::now(),
            commands: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
        };
        let mut turn = session.turn().await?;
        match turn.receive(patience).await? {
            Reply::Ready { version: wire::VERSION } => turn.finish(),
            Reply::Ready { version } => {
                return Err(lost(format!(
                    "the supervisor speaks version {version}, this program {}",
                    wire::VERSION
                )));
            }
            other => return Err(unexpected(&other)),
        }
        Ok(session)
    }

    pub(crate) fn with_budget(mut self, budget: CommandBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Writes the workspace. Ends when all senders are gone; whoever sends knows whether that was the end
    /// of the tree, and closes the sandbox if it was not.
    pub(crate) async fn fill(&self, mut entries: mpsc::Receiver<Fill>) -> Result<Filled, SandboxError> {
        let mut turn = self.turn().await?;
        while let Some(entry) = entries.recv().await {
            match entry {
                Fill::Base(change) => turn.send_entry(Stage::Base, change).await?,
                Fill::Git(change) => {
                    let path = [b".git/", change.path.as_slice()].concat();
                    turn.send_entry(Stage::Git, Change { path, ..change }).await?;
                }
                Fill::Saved(change) => turn.send_entry(Stage::Saved, change).await?,
                Fill::Removed(path) => turn.send(&Request::Remove { path }).await?,
            }
        }
        turn.send(&Request::FillEnd).await?;
        match turn.receive(self.patience + PREPARE_GRACE).await? {
            Reply::Filled { entries, bytes } => {
                turn.finish();
                Ok(Filled { entries, bytes })
            }
            other => turn.refusal(other),
        }
    }

    /// Runs a command. Where no outcome comes within its timeout and five seconds, the session is lost.
    pub(crate) async fn run(
        &self,
        command: &str,
        limits: CommandLimits,
    ) -> Result<CommandOutcome, SandboxError> {
        if command.len() > MAX_COMMAND {
            let length = command.len();
            return Err(SandboxError::Limit(format!(
                "the command is {length} bytes long; at most {MAX_COMMAND} are taken"
            )));
        }
        self.within_budget()?;
        let mut turn = self.turn().await?;
        self.commands.fetch_add(1, Ordering::Relaxed);
        let keep = limits.keep_bytes.min(wire::MAX_KEEP);
        turn.send(&Request::Run {
            timeout_ms: u64::try_from(limits.timeout.as_millis()).unwrap_or(u64::MAX),
            keep_bytes: keep as u64,
            command: command.as_bytes().to_vec(),
        })
        .await?;
        if *turn.ahead() != Ahead::Never {
            turn.send(&Request::List { since: Reference::LastListing }).await?;
            *turn.ahead() = Ahead::UnderWay;
        }
        match turn.receive(limits.timeout.saturating_add(HOST_GRACE)).await? {
            Reply::Outcome(outcome) if outcome.head.len() <= keep && outcome.tail.len() <= keep => {
                turn.finish();
                let kept = (outcome.head.len() + outcome.tail.len()) as u64;
                self.output_bytes.fetch_add(kept.saturating_add(outcome.omitted), Ordering::Relaxed);
                Ok(outcome_from(outcome))
            }
            other => turn.refusal(other),
        }
    }

    /// After the first time, every command brings the listing with it that is asked for next.
    pub(crate) async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError> {
        let mut turn = self.turn().await?;
        let listed = match since {
            Since::LastListing if *turn.ahead() == Ahead::Here => turn.claim(Vec::new()),
            _ => {
                let reference = match since {
                    Since::Base => Reference::Base,
                    Since::LastListing => Reference::LastListing,
                };
                turn.send(&Request::List { since: reference }).await?;
                match turn.receive_listing().await? {
                    Ok(newest) if since == Since::LastListing => turn.claim(newest),
                    Ok(listed) => listed,
                    Err(reply) => return turn.refusal(reply),
                }
            }
        };
        turn.finish();
        Ok(listed.into_iter().map(|(path, kind)| Listed { path, kind }).collect())
    }

    pub(crate) async fn freeze(&self) -> Result<(), SandboxError> {
        let mut turn = self.turn().await?;
        turn.send(&Request::Freeze).await?;
        match turn.receive(self.patience).await? {
            Reply::Frozen => {
                turn.finish();
                Ok(())
            }
            other => turn.refusal(other),
        }
    }

    pub(crate) async fn fetch(&self, path: &[u8], max_bytes: u64) -> Result<Vec<u8>, SandboxError> {
        let mut turn = self.turn().await?;
        turn.send(&Request::Fetch { path: path.to_vec(), max_bytes }).await?;
        let mut content = Vec::new();
        loop {
            match turn.receive(self.patience).await? {
                Reply::Content { bytes, last } => {
                    if (content.len() + bytes.len()) as u64 > max_bytes {
                        return Err(lost("the supervisor sends more than was asked for".into()));
                    }
                    content.extend(bytes);
                    if last {
                        turn.finish();
                        return Ok(content);
                    }
                }
                other => return turn.refusal(other),
            }
        }
    }

    /// Ends the conversation, a command that is running included, and waits a moment for the supervisor to
    /// exit. Harmless when it was called before.
    pub(crate) async fn hang_up(&self) {
        self.hung_up.cancel();
        self.channel.lock().await.hang_up().await;
    }

    fn within_budget(&self) -> Result<(), SandboxError> {
        let CommandBudget { commands, output_bytes, seconds } = self.budget;
        let over = if self.commands.load(Ordering::Relaxed) >= commands {
            format!("{commands} commands")
        } else if self.output_bytes.load(Ordering::Relaxed) >= output_bytes {
            format!("{output_bytes} bytes of output")
        } else if self.started.elapsed().as_secs() >= seconds {
            format!("{seconds} s of time")
        } else {
            return Ok(());
        };
        Err(SandboxError::Limit(format!("the sandbox has used up its {over}; no further command runs in it")))
    }

    async fn turn(&self) -> Result<Turn<'_>, SandboxError> {
        let mut turn = Turn::begin(&self.channel, &self.hung_up, self.patience).await?;
        turn.catch_up().await?;
        Ok(turn)
    }
}

fn outcome_from(outcome: wire::Outcome) -> CommandOutcome {
    CommandOutcome {
        exit: match outcome.exit {
            wire::Exit::Code(code) => CommandExit::Code(code),
            wire::Exit::Signal(signal) => CommandExit::Signal(signal),
            wire::Exit::TimedOut => CommandExit::TimedOut,
        },
        head: outcome.head,
        tail: outcome.tail,
        omitted: outcome.omitted,
        background_ended: outcome.background_ended,
        duration: Duration::from_micros(outcome.micros),
    }
}

#[cfg(test)]
mod tests;
