//! One exchange with the supervisor, and what breaks the conversation.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::{Mutex, MutexGuard},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{Change, FileMode, TreePath},
    gate::visible::visible,
    method::ports::{ListedKind, SandboxError},
    sandbox::wire::{self, Cause, Reply, Request, Stage},
};

/// Frames are gathered up to this many bytes before they are written.
const WRITE_BUFFER: usize = 128 << 10;
/// Most files that commands may change before somebody asks which.
const MAX_UNCLAIMED: usize = 4 * wire::MAX_LISTED;
/// How long a supervisor may take to exit when the host hangs up.
const FAREWELL: Duration = Duration::from_secs(2);

/// The two streams.
pub(super) struct Channel {
    from: Box<dyn AsyncRead + Send + Unpin>,
    to: BufWriter<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Why nothing more can be said.
    broken: Option<String>,
    ahead: Ahead,
    /// What listings have told that nobody asked for yet; of one path, the newest.
    unclaimed: BTreeMap<TreePath, ListedKind>,
}

/// Whether a listing follows each command without being asked for: a step of an agent then waits for one
/// answer, not for two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Nobody has asked for a listing so far.
    Never,
    /// The last listing is out of date, or could not be made.
    Nothing,
    /// It is the next reply.
    UnderWay,
    /// It is in `unclaimed`, and no command has run since.
    Here,
}

impl Channel {
    pub(super) fn new(
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let to = BufWriter::with_capacity(WRITE_BUFFER, Box::new(to) as _);
        Self { from: Box::new(from), to, broken: None, ahead: Ahead::Never, unclaimed: BTreeMap::new() }
    }

    /// Ends the conversation for good and waits a moment until the other side has ended as well.
    pub(super) async fn hang_up(&mut self) {
        self.broken = Some(CLOSED.into());
        let mut to = std::mem::replace(&mut self.to, BufWriter::new(Box::new(tokio::io::sink())));
        let farewell = async {
            // Some streams end by this, others (pipes) when they are dropped. An error means that the other
            // side is gone, which is what is wanted.
            let _ = to.shutdown().await;
            drop(to);
            let _ = tokio::io::copy(&mut self.from, &mut tokio::io::sink()).await;
        };
        let _ = timeout(FAREWELL, farewell).await;
    }
}

const CLOSED: &str = "it was closed";

/// The right to speak. Dropped unfinished, it breaks the session.
pub(super) struct Turn<'a> {
    channel: MutexGuard<'a, Channel>,
    hung_up: &'a CancellationToken,
    patience: Duration,
    finished: bool,
}

impl<'a> Turn<'a> {
    /// Every stream operation takes at most `patience`, but for answers that are given more.
    pub(super) async fn begin(
        channel: &'a Mutex<Channel>,
        hung_up: &'a CancellationToken,
        patience: Duration,
    ) -> Result<Self, SandboxError> {
        let channel = channel.lock().await;
        match &channel.broken {
            Some(reason) => Err(lost(reason.clone())),
            None => Ok(Self { channel, hung_up, patience, finished: false }),
        }
    }

    pub(super) fn ahead(&mut self) -> &mut Ahead {
        &mut self.channel.ahead
    }

    /// Takes in a listing that is under way, so that the next reply is the next request's.
    pub(super) async fn catch_up(&mut self) -> Result<(), SandboxError> {
        if self.channel.ahead == Ahead::UnderWay {
            // One that could not be made is asked for again by whoever wants it.
            self.channel.ahead = match self.receive_listing().await? {
                Ok(listed) => {
                    self.channel.unclaimed.extend(listed);
                    if self.channel.unclaimed.len() > MAX_UNCLAIMED {
                        return Err(lost("its commands change too many files".into()));
                    }
                    Ahead::Here
                }
                Err(_) => Ahead::Nothing,
            };
        }
        Ok(())
    }

    /// What was listed since the last claim, and `newest` after it.
    pub(super) fn claim(&mut self, newest: Vec<(TreePath, ListedKind)>) -> Vec<(TreePath, ListedKind)> {
        self.channel.ahead = Ahead::Nothing;
        let mut all = std::mem::take(&mut self.channel.unclaimed);
        all.extend(newest);
        all.into_iter().collect()
    }

    /// A listing, or the reply that came instead.
    pub(super) async fn receive_listing(
        &mut self,
    ) -> Result<Result<Vec<(TreePath, ListedKind)>, Reply>, SandboxError> {
        let mut all = Vec::new();
        loop {
            match self.receive(self.patience).await? {
                Reply::Listed { entries, last } => {
                    if all.len() + entries.len() > wire::MAX_LISTED {
                        return Err(lost("the supervisor lists too many entries".into()));
                    }
                    all.extend(entries.into_iter().map(listed_from));
                    if last {
                        return Ok(Ok(all));
                    }
                }
                failed @ Reply::Failed { .. } => return Ok(Err(failed)),
                other => return Err(unexpected(&other)),
            }
        }
    }

    pub(super) fn finish(mut self) {
        self.finished = true;
    }

    pub(super) async fn send_entry(&mut self, stage: Stage, change: Change) -> Result<(), SandboxError> {
        let size = change.content.len() as u64;
        let mut pieces = change.content.chunks(wire::CHUNK);
        let content = pieces.next().unwrap_or_default().to_vec();
        let mode = match change.mode {
            FileMode::Regular => wire::Mode::Regular,
            FileMode::Executable => wire::Mode::Executable,
            FileMode::Symlink => wire::Mode::Symlink,
        };
        self.send(&Request::Entry { stage, mode, size, path: change.path, content }).await?;
        for piece in pieces {
            self.send(&Request::More { content: piece.to_vec() }).await?;
        }
        Ok(())
    }

    /// Buffers a request; [`Turn::receive`] makes sure that it leaves.
    pub(super) async fn send(&mut self, request: &Request) -> Result<(), SandboxError> {
        let frame = request.encode();
        let (hung_up, patience) = (self.hung_up, self.patience);
        let write = timeout(patience, self.channel.to.write_all(&frame));
        tokio::select! {
            done = write => settled(done, patience),
            () = hung_up.cancelled() => Err(closed()),
        }
    }

    pub(super) async fn receive(&mut self, patience: Duration) -> Result<Reply, SandboxError> {
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
    pub(super) fn refusal<T>(self, reply: Reply) -> Result<T, SandboxError> {
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

pub(super) fn lost(reason: String) -> SandboxError {
    SandboxError::Lost(reason)
}

fn closed() -> SandboxError {
    lost(CLOSED.into())
}

pub(super) fn unexpected(reply: &Reply) -> SandboxError {
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

fn listed_from(listed: wire::Listed) -> (TreePath, ListedKind) {
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
    (listed.path, kind)
}

/// A supervisor's message for people: one line, bounded, nothing invisible.
fn readable(message: &str) -> String {
    visible(&message.chars().take(1_000).collect::<String>()).replace('\n', " ")
}
