//! The host's side of the conversation with a supervisor, over any pair of streams.
//!
//! Requests and answers alternate, so a request that is broken off half way (its future was dropped, a
//! stream failed, the timer fired) leaves the stream in an unknown place. The session is then lost: every
//! later call says so, and the engine's part is to end the sandbox. The supervisor is ours, yet it runs
//! among hostile processes, so everything it sends is limited and checked here.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::{Mutex, MutexGuard, mpsc},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::wire::{self, Cause, Reference, Reply, Request, Stage};
use crate::{
    domain::{Change, FileMode, TreePath},
    method::ports::{CommandExit, CommandLimits, CommandOutcome, Listed, ListedKind, SandboxError, Since},
};

/// What the host adds to a command's timeout before it gives the sandbox up (R-EX-6).
const HOST_GRACE: Duration = Duration::from_secs(5);
/// How long `git update-index` may take after the fill, on top of the session's patience.
const PREPARE_GRACE: Duration = Duration::from_secs(60);
/// How long a supervisor may take to exit when the host hangs up.
const FAREWELL: Duration = Duration::from_secs(2);
/// Longest command text, in bytes. Linux itself refuses an argument of 128 KiB, which is an outcome.
const MAX_COMMAND: usize = 8 << 20;
/// Frames are gathered up to this many bytes before they are written.
const WRITE_BUFFER: usize = 128 << 10;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionBudget {
    pub(crate) commands: u64,
    /// Output that was produced, dropped bytes included.
    pub(crate) output_bytes: u64,
    /// Since the session started.
    pub(crate) wall_clock: Duration,
}

impl Default for SessionBudget {
    fn default() -> Self {
        Self { commands: 2_000, output_bytes: 64 << 30, wall_clock: Duration::from_secs(2 * 60 * 60) }
    }
}

/// A running supervisor.
pub(crate) struct Session {
    channel: Mutex<Channel>,
    hung_up: CancellationToken,
    /// Longest silence that is taken for life.
    patience: Duration,
    budget: SessionBudget,
    started: Instant,
    commands: AtomicU64,
    output_bytes: AtomicU64,
}

struct Channel {
    from: Box<dyn AsyncRead + Send + Unpin>,
    to: BufWriter<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Why nothing more can be said.
    broken: Option<String>,
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
        let channel = Channel {
            from: Box::new(from_supervisor),
            to: BufWriter::with_capacity(WRITE_BUFFER, Box::new(to_supervisor)),
            broken: None,
        };
        let session = Self {
            channel: Mutex::new(channel),
            hung_up: CancellationToken::new(),
            patience,
            budget: SessionBudget::default(),
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

    pub(crate) fn with_budget(mut self, budget: SessionBudget) -> Self {
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

    pub(crate) async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError> {
        let mut turn = self.turn().await?;
        let since = match since {
            Since::Base => Reference::Base,
            Since::LastListing => Reference::LastListing,
        };
        turn.send(&Request::List { since }).await?;
        let mut all = Vec::new();
        loop {
            match turn.receive(self.patience).await? {
                Reply::Listed { entries, last } => {
                    if all.len() + entries.len() > wire::MAX_LISTED {
                        return Err(lost("the supervisor lists too many entries".into()));
                    }
                    all.extend(entries.into_iter().map(listed_from));
                    if last {
                        turn.finish();
                        return Ok(all);
                    }
                }
                other => return turn.refusal(other),
            }
        }
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
        let mut channel = self.channel.lock().await;
        channel.broken = Some("it was closed".into());
        let Channel { from, to, .. } = &mut *channel;
        let mut to = std::mem::replace(to, BufWriter::new(Box::new(tokio::io::sink())));
        let farewell = async {
            // Some streams end by this, others (pipes) when they are dropped. An error means that the other
            // side is gone, which is what is wanted.
            let _ = to.shutdown().await;
            drop(to);
            let _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
        };
        let _ = timeout(FAREWELL, farewell).await;
    }

    fn within_budget(&self) -> Result<(), SandboxError> {
        let SessionBudget { commands, output_bytes, wall_clock } = self.budget;
        let over = if self.commands.load(Ordering::Relaxed) >= commands {
            format!("{commands} commands")
        } else if self.output_bytes.load(Ordering::Relaxed) >= output_bytes {
            format!("{output_bytes} bytes of output")
        } else if self.started.elapsed() >= wall_clock {
            format!("{} s of time", wall_clock.as_secs())
        } else {
            return Ok(());
        };
        Err(SandboxError::Limit(format!("the sandbox has used up its {over}; no further command runs in it")))
    }

    async fn turn(&self) -> Result<Turn<'_>, SandboxError> {
        let channel = self.channel.lock().await;
        match &channel.broken {
            Some(reason) => Err(lost(reason.clone())),
            None => Ok(Turn { channel, hung_up: &self.hung_up, patience: self.patience, finished: false }),
        }
    }
}

/// The right to speak. Dropped unfinished, it breaks the session.
struct Turn<'a> {
    channel: MutexGuard<'a, Channel>,
    hung_up: &'a CancellationToken,
    patience: Duration,
    finished: bool,
}

impl Turn<'_> {
    fn finish(mut self) {
        self.finished = true;
    }

    async fn send_entry(&mut self, stage: Stage, change: Change) -> Result<(), SandboxError> {
        let size = change.content.len() as u64;
        let mut pieces = change.content.chunks(wire::CHUNK);
        let content = pieces.next().unwrap_or_default().to_vec();
        let mode = mode_to(change.mode);
        self.send(&Request::Entry { stage, mode, size, path: change.path, content }).await?;
        for piece in pieces {
            self.send(&Request::More { content: piece.to_vec() }).await?;
        }
        Ok(())
    }

    /// Buffers a request; [`Turn::receive`] makes sure that it leaves.
    async fn send(&mut self, request: &Request) -> Result<(), SandboxError> {
        let frame = request.encode();
        let (hung_up, patience) = (self.hung_up, self.patience);
        let write = timeout(patience, self.channel.to.write_all(&frame));
        tokio::select! {
            done = write => settled(done, patience),
            () = hung_up.cancelled() => Err(closed()),
        }
    }

    async fn receive(&mut self, patience: Duration) -> Result<Reply, SandboxError> {
        let hung_up = self.hung_up;
        let Channel { from, to, .. } = &mut *self.channel;
        let read = timeout(patience, async {
            to.flush().await?;
            let length = from.read_u32_le().await? as usize;
            if !(1..=wire::MAX_FRAME).contains(&length) {
                return Err(std::io::Error::other("the supervisor sent a frame of a wrong length"));
            }
            let mut frame = vec![0; length];
            from.read_exact(&mut frame).await?;
            Ok(frame)
        });
        let frame = tokio::select! {
            done = read => settled(done, patience)?,
            () = hung_up.cancelled() => return Err(closed()),
        };
        Reply::decode(&frame)
            .map_err(|wire::Malformed(what)| lost(format!("the supervisor sent a malformed frame: {what}")))
    }

    /// For a reply that is not the awaited one. A refusal ends the turn in good order.
    fn refusal<T>(self, reply: Reply) -> Result<T, SandboxError> {
        let Reply::Failed { cause, message } = reply else { return Err(unexpected(&reply)) };
        self.finish();
        let message = readable(&message);
        Err(match cause {
            Cause::Full | Cause::Refused => SandboxError::Limit(message),
            Cause::Missing => SandboxError::Unavailable(message),
            Cause::System => SandboxError::Lost(message),
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.channel.broken.get_or_insert_with(|| "an earlier request was broken off".into());
        }
    }
}

fn settled<T>(
    done: Result<std::io::Result<T>, tokio::time::error::Elapsed>,
    patience: Duration,
) -> Result<T, SandboxError> {
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(lost("the supervisor ended".into()))
        }
        Ok(Err(error)) => Err(lost(error.to_string())),
        Err(_) => Err(lost(format!("no answer within {:.1} s", patience.as_secs_f64()))),
    }
}

fn lost(reason: String) -> SandboxError {
    SandboxError::Lost(reason)
}

fn closed() -> SandboxError {
    lost("it was closed".into())
}

fn unexpected(reply: &Reply) -> SandboxError {
    let kind = match reply {
        Reply::Ready { .. } => "ready",
        Reply::Filled { .. } => "filled",
        Reply::Outcome(_) => "outcome",
        Reply::Listed { .. } => "listed",
        Reply::Frozen => "frozen",
        Reply::Content { .. } => "content",
        Reply::Failed { message, .. } => return lost(readable(message)),
    };
    lost(format!("the supervisor answered out of turn ({kind})"))
}

/// A supervisor's message for people: one line, bounded, nothing invisible.
fn readable(message: &str) -> String {
    super::text::visible(&message.chars().take(1_000).collect::<String>()).replace('\n', " ")
}

fn mode_to(mode: FileMode) -> wire::Mode {
    match mode {
        FileMode::Regular => wire::Mode::Regular,
        FileMode::Executable => wire::Mode::Executable,
        FileMode::Symlink => wire::Mode::Symlink,
    }
}

fn listed_from(listed: wire::Listed) -> Listed {
    let kind = match listed.kind {
        wire::ListedKind::Changed { mode, size } => {
            let mode = match mode {
                wire::Mode::Regular => FileMode::Regular,
                wire::Mode::Executable => FileMode::Executable,
                wire::Mode::Symlink => FileMode::Symlink,
            };
            ListedKind::Changed { mode, size }
        }
        wire::ListedKind::Removed => ListedKind::Removed,
        wire::ListedKind::Special => ListedKind::Special,
    };
    Listed { path: listed.path, kind }
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
#[path = "session_tests.rs"]
mod tests;
