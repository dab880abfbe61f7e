//! Answers the host's requests, one at a time.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write as _},
    os::fd::{BorrowedFd, OwnedFd},
    process::Command,
    time::Duration,
};

use super::{
    changes::Snapshot,
    commands::{Commands, Interrupted},
    fill::{Fill, Filled},
    system,
    wire::{self, Cause, Exit, Outcome, Reference, Reply, Request},
    workspace::{self, Failure},
};

/// How long git may take to look at a fresh workspace.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(50);
/// Entries of a listing that share a frame: even the longest paths stay within [`wire::MAX_FRAME`].
const LISTED_PER_FRAME: usize = 2_000;
/// What a shell says for a command that cannot be executed.
const CANNOT_EXECUTE: i32 = 126;

#[derive(Debug, PartialEq, Eq)]
pub enum Answered {
    Yes,
    /// The host is gone; nothing can be answered any more.
    HungUp,
}

pub struct Supervisor<'s> {
    root: OwnedFd,
    to_host: File,
    commands: Commands<'s>,
    workspace: Workspace,
    frozen: bool,
}

/// What is known of the workspace's content.
enum Workspace {
    /// Nothing: it is empty, or another supervisor filled it.
    Unknown,
    Filling(Box<Fill>),
    Known {
        base: Snapshot,
        last_listing: Snapshot,
    },
}

impl<'s> Supervisor<'s> {
    pub fn new(workspace: &'s OsStr, host: BorrowedFd<'s>, to_host: File) -> io::Result<Self> {
        let mut supervisor = Self {
            root: system::open_root(workspace)?,
            to_host,
            commands: Commands::new(workspace, host)?,
            workspace: Workspace::Unknown,
            frozen: false,
        };
        supervisor.say(&Reply::Ready { version: wire::VERSION })?;
        Ok(supervisor)
    }

    /// An error means that the conversation cannot go on.
    pub fn answer(&mut self, request: Request) -> io::Result<Answered> {
        let reply = match request {
            Request::Entry { stage, mode, size, path, content } => {
                self.filling()?.entry(stage, mode, size, path, &content);
                return Ok(Answered::Yes);
            }
            Request::More { content } => {
                self.filling()?.more(&content);
                return Ok(Answered::Yes);
            }
            Request::Remove { path } => {
                self.filling()?.remove(&path);
                return Ok(Answered::Yes);
            }
            Request::FillEnd => self.end_fill(),
            Request::Run { .. } if self.frozen => {
                Err(Failure::refused("the sandbox is frozen: no command runs in it any more".into()).into())
            }
            Request::Run { timeout_ms, keep_bytes, command } => {
                self.run(&command, Duration::from_millis(timeout_ms), keep_bytes as usize)
            }
            Request::List { since } => match self.list(since) {
                Ok(listed) => return self.say_all(listed),
                Err(failure) => Err(failure.into()),
            },
            Request::Freeze => {
                self.frozen = true;
                self.commands.end_all().map(|_| Reply::Frozen).map_err(Trouble::from)
            }
            Request::Fetch { path, max_bytes } => {
                let to_host = &mut self.to_host;
                let send = |bytes, last| to_host.write_all(&Reply::Content { bytes, last }.encode());
                match workspace::fetch(&self.root, &path, max_bytes, send) {
                    Ok(sent) => return sent.map(|()| Answered::Yes),
                    Err(failure) => Err(failure.into()),
                }
            }
        };
        match reply {
            Ok(reply) => self.say(&reply)?,
            Err(Trouble::Failed(Failure { cause, message })) => {
                self.say(&Reply::Failed { cause, message })?
            }
            Err(Trouble::HungUp) => return Ok(Answered::HungUp),
        }
        Ok(Answered::Yes)
    }

    fn say(&mut self, reply: &Reply) -> io::Result<()> {
        self.to_host.write_all(&reply.encode())
    }

    fn say_all(&mut self, mut listed: Vec<wire::Listed>) -> io::Result<Answered> {
        loop {
            let rest = listed.split_off(listed.len().min(LISTED_PER_FRAME));
            let last = rest.is_empty();
            self.say(&Reply::Listed { entries: listed, last })?;
            if last {
                return Ok(Answered::Yes);
            }
            listed = rest;
        }
    }

    /// The fill under way; the first entry starts it.
    fn filling(&mut self) -> io::Result<&mut Fill> {
        if let Workspace::Unknown = self.workspace {
            self.workspace = Workspace::Filling(Box::new(Fill::new(self.root.try_clone()?)));
        }
        match &mut self.workspace {
            Workspace::Filling(fill) => Ok(fill),
            _ => Err(io::Error::other("the host fills the workspace a second time")),
        }
    }

    fn end_fill(&mut self) -> Result<Reply, Trouble> {
        self.filling().map_err(|error| Failure::of("fill", b"the workspace", &error))?;
        let Workspace::Filling(fill) = std::mem::replace(&mut self.workspace, Workspace::Unknown) else {
            unreachable!("it was being filled a line above");
        };
        let Filled { base, changed, git, entries, bytes } = fill.finish()?;
        if git {
            self.refresh_index()?;
        }
        let last_listing = if changed { Snapshot::take(&self.root)? } else { base.clone() };
        settle(&last_listing)?;
        self.workspace = Workspace::Known { base, last_listing };
        Ok(Reply::Filled { entries, bytes })
    }

    /// Lets git note the files' times once, so that no agent's first `git status` reads the whole tree.
    /// Only speed is at stake: a failure is no failure of the fill.
    fn refresh_index(&self) -> Result<(), Trouble> {
        let mut git = Command::new("git");
        git.args(["update-index", "-q", "--refresh"]);
        match self.commands.run(git, PREPARE_TIMEOUT, 0) {
            Err(Interrupted::HungUp) => Err(Trouble::HungUp),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn run(&self, command: &[u8], timeout: Duration, keep: usize) -> Result<Reply, Trouble> {
        match self.commands.bash(command, timeout, keep) {
            Ok(outcome) => Ok(Reply::Outcome(outcome)),
            Err(interrupted @ (Interrupted::HungUp | Interrupted::Unwatched(_))) => Err(interrupted.into()),
            Err(Interrupted::NotStarted(error)) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("bash cannot be started in the sandbox: {error}. Its image needs bash");
                Err(Failure { cause: Cause::Missing, message }.into())
            }
            // The command itself is at fault (too long, a NUL in it), as a shell would say.
            Err(Interrupted::NotStarted(error)) => {
                let mut head = format!("bash: the command cannot be executed: {error}\n").into_bytes();
                head.truncate(keep);
                Ok(Reply::Outcome(Outcome {
                    exit: Exit::Code(CANNOT_EXECUTE),
                    head,
                    tail: Vec::new(),
                    omitted: 0,
                    background_ended: 0,
                    micros: 0,
                }))
            }
        }
    }

    fn list(&mut self, since: Reference) -> Result<Vec<wire::Listed>, Failure> {
        let Workspace::Known { base, last_listing } = &mut self.workspace else {
            return Err(Failure::refused(
                "this sandbox did not fill its workspace; it cannot list it".into(),
            ));
        };
        let now = Snapshot::take(&self.root)?;
        match since {
            Reference::Base => base.changes(&now, Some(&self.root)),
            Reference::LastListing => {
                let listed = last_listing.changes(&now, None)?;
                settle(&now)?;
                *last_listing = now;
                Ok(listed)
            }
        }
    }
}

fn settle(snapshot: &Snapshot) -> Result<(), Failure> {
    snapshot.settle().map_err(|error| Failure {
        cause: Cause::System,
        message: format!("the clock cannot be read: {error}"),
    })
}

/// Why a request has no ordinary answer.
enum Trouble {
    Failed(Failure),
    HungUp,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Interrupted> for Trouble {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::HungUp => Self::HungUp,
            Interrupted::NotStarted(error) | Interrupted::Unwatched(error) => Self::Failed(Failure {
                cause: Cause::System,
                message: format!("processes cannot be started or waited for: {error}"),
            }),
        }
    }
}
