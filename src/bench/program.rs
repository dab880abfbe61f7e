//! A program of the operator's, with all that it starts.
//!
//! It leads a process group of its own, which is killed when this is dropped: what it started ends with it, however
//! it ends. Of its output the end is kept. Nothing is waited for after the program itself has ended, since a process
//! that left the group may hold a pipe open for ever.

use std::{
    fs::File,
    future::pending,
    io::{self, Read},
    os::fd::OwnedFd,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    process::{Child, Command},
};

/// Bytes that are kept of each output.
pub const KEPT_BYTES: usize = 1 << 20;
/// Where an output without lines is cut, this much more is left out: no half of a secret is to be left.
const MARGIN_BYTES: usize = 4 << 10;

/// A program at work.
pub struct Program {
    child: Child,
    group: Group,
    stdout: Output,
    stderr: Output,
}

impl Program {
    /// Starts it without input, and without a shell.
    pub fn start(program: &str, arguments: &[String]) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // So that all of it can be ended, and that Ctrl-C reaches it through us alone.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = Group::of(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let stdout = stdout.expect("stdout is piped").into_owned_fd()?;
        let stderr = stderr.expect("stderr is piped").into_owned_fd()?;
        Ok(Self { child, group, stdout: Output::of(stdout)?, stderr: Output::of(stderr)? })
    }

    /// Until the program itself ends.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let Self { child, stdout, stderr, .. } = self;
        tokio::select! {
            status = child.wait() => status,
            status = async { tokio::join!(stdout.read(), stderr.read()); pending().await } => status,
        }
    }

    /// Asks it to end, for it may have a container to remove, and waits for that a while.
    pub async fn stop(&mut self, grace: Duration) {
        self.group.signal(Signal::SIGTERM);
        let _ = tokio::time::timeout(grace, self.wait()).await;
    }

    /// Kills what is left of it. Gives the ends of stdout and stderr.
    pub fn end(self) -> [Kept; 2] {
        let Self { group, stdout, stderr, .. } = self;
        drop(group);
        [stdout.end(), stderr.end()]
    }
}

/// A process group, killed when this is dropped. Its number cannot be another's as long as anybody is in it.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        let Some(group) = self.0 else { return };
        match killpg(group, signal) {
            // Nobody is left, which is what is wanted.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::warn!(%group, %error, "what a program started could not be ended"),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// What comes out of a program.
struct Output {
    /// `None` once it has come to its end.
    from: Option<Receiver>,
    kept: Kept,
}

impl Output {
    fn of(pipe: OwnedFd) -> io::Result<Self> {
        Ok(Self { from: Some(Receiver::from_owned_fd(pipe)?), kept: Kept::default() })
    }

    /// Reads to the end. May be given up at any await, and nothing is lost.
    async fn read(&mut self) {
        let mut chunk = vec![0; 1 << 16];
        while let Some(from) = &mut self.from {
            match from.read(&mut chunk).await {
                Ok(count) if count > 0 => self.kept.add(&chunk[..count]),
                Ok(_) | Err(_) => self.from = None,
            }
        }
    }

    /// What is in the pipe is still read, and nothing is waited for.
    fn end(mut self) -> Kept {
        let mut chunk = vec![0; 1 << 16];
        let mut left = KEPT_BYTES;
        if let Some(from) = self.from.take()
            && let Ok(pipe) = from.into_nonblocking_fd()
        {
            let mut pipe = File::from(pipe);
            // Bounded, since somebody may still be writing.
            while left > 0
                && let Ok(count @ 1..) = pipe.read(&mut chunk)
            {
                self.kept.add(&chunk[..count]);
                left = left.saturating_sub(count);
            }
        }
        self.kept.cut_to(KEPT_BYTES);
        self.kept
    }
}

/// The end of an output.
#[derive(Debug, Default)]
pub struct Kept {
    pub bytes: Vec<u8>,
    /// How much stood before it.
    pub left_out: u64,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * KEPT_BYTES {
            self.drop_first(self.bytes.len() - KEPT_BYTES);
        }
    }

    fn drop_first(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.left_out += count as u64;
    }

    /// Begins with a whole line where something is left out.
    fn cut_to(&mut self, most: usize) {
        self.drop_first(self.bytes.len().saturating_sub(most));
        if self.left_out > 0 {
            let line = self.bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            self.drop_first(line.unwrap_or(MARGIN_BYTES.min(self.bytes.len())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Program {
        Program::start("/bin/sh", &["-c".to_owned(), script.to_owned()]).unwrap()
    }

    async fn ended(mut program: Program) -> [String; 2] {
        assert!(program.wait().await.unwrap().success());
        program.end().map(|kept| String::from_utf8(kept.bytes).unwrap())
    }

    /// The first number in a text, once it is a process that has ended.
    async fn until_dead(text: &str) {
        let id = text.split_whitespace().next().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        // An orphan that nobody has reaped yet is as dead as one that was.
        let dead = || match std::fs::read_to_string(format!("/proc/{id}/stat")) {
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])),
            Err(_) => true,
        };
        while !dead() {
            assert!(Instant::now() < deadline, "{id} lives");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_child_that_holds_the_output_open_is_neither_waited_for_nor_left() {
        let started = Instant::now();
        let [out, err] = ended(shell("sleep 600 & echo $!; echo told >&2")).await;
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        assert_eq!(err, "told\n");
        until_dead(&out).await;
    }

    #[tokio::test]
    async fn who_leaves_the_group_is_not_waited_for() {
        let started = Instant::now();
        let [out, _] = ended(shell("setsid sleep 5 & echo done")).await;
        assert_eq!(out, "done\n");
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn whoever_does_not_stop_is_killed_with_all_its_children() {
        let mut program = shell("trap '' TERM; echo $$; sleep 600 & echo $!; wait; wait; sleep 600");
        while program.stdout.kept.bytes.iter().filter(|byte| **byte == b'\n').count() < 2 {
            let _ = tokio::time::timeout(Duration::from_millis(5), program.wait()).await;
        }
        program.stop(Duration::from_millis(50)).await;
        let [out, _] = program.end();
        for id in String::from_utf8(out.bytes).unwrap().lines() {
            until_dead(id).await;
        }
    }

    #[tokio::test]
    async fn one_that_is_dropped_is_killed_with_all_its_children() {
        let mut program = shell("sleep 600 & echo $!; wait");
        while program.stdout.kept.bytes.is_empty() {
            let _ = tokio::time::timeout(Duration::from_millis(5), program.wait()).await;
        }
        let child = String::from_utf8(program.stdout.kept.bytes.clone()).unwrap();
        drop(program);
        until_dead(&child).await;
    }

    #[tokio::test]
    async fn of_much_output_the_end_is_kept_from_a_whole_line_on() {
        let mut program = shell("yes 0123456789abcde | head -c 5000000; echo last");
        program.wait().await.unwrap();
        let [out, err] = program.end();
        assert!(out.bytes.len() <= KEPT_BYTES && out.bytes.len() > KEPT_BYTES - 20, "{}", out.bytes.len());
        assert_eq!(out.left_out + out.bytes.len() as u64, 5_000_005);
        assert!(out.bytes.starts_with(b"0123456789abcde\n") && out.bytes.ends_with(b"last\n"));
        assert_eq!((err.bytes.len(), err.left_out), (0, 0));
    }
}
