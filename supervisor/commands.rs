//! Runs one command at a time and lets nothing of it survive (R-EX-1 to R-EX-5).

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, PipeReader, Read as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd},
        unix::{
            ffi::OsStrExt as _,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::{
    output::Ends,
    system::{self, Poll, Reaped},
    wire::{Exit, Outcome},
};

/// Reads of one turn of the loop, so that an endless writer does not hide the deadline.
const READS_PER_TURN: usize = 16;
/// How often killing is repeated while processes are still dying.
const KILL_AGAIN: Duration = Duration::from_millis(20);

/// Why there is no outcome.
pub enum Interrupted {
    /// The host is gone; so should be the sandbox.
    HungUp,
    /// The command could not be started.
    NotStarted(io::Error),
    /// Its processes could not be waited for.
    Unwatched(io::Error),
}

/// Starts and ends commands.
pub struct Commands<'s> {
    /// Where commands start.
    workspace: &'s OsStr,
    /// The host's end; watched for hang-up while a command runs.
    host: BorrowedFd<'s>,
    /// Readable when children ended.
    children: File,
}

impl<'s> Commands<'s> {
    pub fn new(workspace: &'s OsStr, host: BorrowedFd<'s>) -> io::Result<Self> {
        Ok(Self { workspace, host, children: system::child_signals()?.into() })
    }

    /// `bash -c text` in a new session, with /dev/null for stdin and one pipe for stdout and stderr.
    pub fn bash(&self, text: &[u8], timeout: Duration, keep: usize) -> Result<Outcome, Interrupted> {
        let mut command = Command::new("bash");
        // The command may begin with a dash.
        command.args(["-c", "--"]).arg(OsStr::from_bytes(text));
        self.run(command, timeout, keep)
    }

    pub fn run(&self, mut command: Command, timeout: Duration, keep: usize) -> Result<Outcome, Interrupted> {
        let (output, foreground) = self.start(&mut command).map_err(Interrupted::NotStarted)?;
        // The command holds the pipe's other end as long as it lives.
        drop(command);
        let begun = Instant::now();
        let mut ends = Ends::new(keep);
        let watched = self.watch(&output, foreground, begun + timeout, &mut ends);
        let elapsed = begun.elapsed();
        if let Err(Interrupted::HungUp) = watched {
            return Err(Interrupted::HungUp);
        }
        let killed = self.end_all()?;
        // Everyone who could write is dead, so what the pipe holds now is all.
        while drain(&output, &mut ends) == Drained::More {}
        let (exit, background_ended) = match watched? {
            Some(status) => (exit_of(status), killed),
            None => (Exit::TimedOut, 0),
        };
        let (head, tail, omitted) = ends.finish();
        let micros = elapsed.as_micros() as u64;
        Ok(Outcome { exit, head, tail, omitted, background_ended, micros })
    }

    fn start(&self, command: &mut Command) -> io::Result<(PipeReader, i32)> {
        let (output, input) = io::pipe()?;
        system::do_not_block(output.as_fd())?;
        command.current_dir(self.workspace).stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        // SAFETY: `setsid` may be called between fork and exec.
        unsafe { command.pre_exec(system::new_session) };
        let child = command.spawn()?;
        Ok((output, child.id() as i32))
    }

    /// Until the foreground command ends; `None` at the deadline.
    fn watch(
        &self,
        output: &PipeReader,
        foreground: i32,
        deadline: Instant,
        ends: &mut Ends,
    ) -> Result<Option<i32>, Interrupted> {
        let poll = |fd: i32, events| Poll { fd, events, happened: 0 };
        let mut fds = [
            poll(self.host.as_raw_fd(), 0),
            poll(self.children.as_raw_fd(), system::POLLIN),
            poll(output.as_raw_fd(), system::POLLIN),
        ];
        loop {
            // Orphans end up here as well; they are not waited for, only taken.
            while let Reaped::Ended { pid, status } = system::reap() {
                if pid == foreground {
                    return Ok(Some(status));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            system::wait_for(&mut fds, Some(left)).map_err(Interrupted::Unwatched)?;
            if fds[0].happened & (system::POLLHUP | system::POLLERR) != 0 {
                return Err(Interrupted::HungUp);
            }
            if fds[1].happened != 0 {
                self.forget_signals();
            }
            if fds[2].happened != 0 && drain(output, ends) == Drained::Closed {
                fds[2].fd = -1;
            }
        }
    }

    /// Ends every process but this one and waits for their end; says how many had to be killed.
    pub fn end_all(&self) -> Result<u32, Interrupted> {
        // Those that ended by themselves are not counted.
        while let Reaped::Ended { .. } = system::reap() {}
        let mut killed = 0;
        loop {
            system::kill_all_others();
            loop {
                match system::reap() {
                    Reaped::Ended { status, .. } => {
                        killed += u32::from(ExitStatus::from_raw(status).signal() == Some(system::SIGKILL));
                    }
                    Reaped::StillRunning => break,
                    Reaped::NoChildren => {
                        self.forget_signals();
                        return Ok(killed);
                    }
                }
            }
            let poll = |fd: i32, events| Poll { fd, events, happened: 0 };
            let mut fds = [poll(self.host.as_raw_fd(), 0), poll(self.children.as_raw_fd(), system::POLLIN)];
            system::wait_for(&mut fds, Some(KILL_AGAIN)).map_err(Interrupted::Unwatched)?;
            if fds[0].happened & (system::POLLHUP | system::POLLERR) != 0 {
                return Err(Interrupted::HungUp);
            }
            self.forget_signals();
        }
    }

    /// Empties the signal descriptor; children are counted by reaping alone.
    fn forget_signals(&self) {
        let mut buffer = [0; 1_024];
        while (&self.children).read(&mut buffer).is_ok_and(|length| length > 0) {}
    }
}

#[derive(PartialEq, Eq)]
enum Drained {
    /// There may be more.
    More,
    Empty,
    /// Nobody can write any more.
    Closed,
}

fn drain(mut output: &PipeReader, ends: &mut Ends) -> Drained {
    let mut buffer = [0; 64 << 10];
    for _ in 0..READS_PER_TURN {
        match output.read(&mut buffer) {
            Ok(0) => return Drained::Closed,
            Ok(length) => ends.push(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Drained::Empty,
            Err(_) => return Drained::Closed,
        }
    }
    Drained::More
}

fn exit_of(status: i32) -> Exit {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
