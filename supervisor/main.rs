//! PID 1 of every sandbox: fills the workspace, runs commands, reports what they did.
//!
//! It is a program of its own, because it lives in the sandbox: static, so that any image will do, and
//! small, so that it can be read whole. It is started as `supervisor WORKSPACE` and speaks `wire` on its
//! stdin and stdout.
//!
//! **Invariants.** Everything else in the sandbox is hostile and runs as the same user, so
//! - nothing can read or trace this process: it is non-dumpable (an engine also installs it unreadable,
//!   which makes the kernel see to that before the first instruction);
//! - nothing can write to the host in its name: no child inherits its stdin and stdout;
//! - nothing can kill, stop or starve it: it is PID 1, handles no signals, and the seccomp filter, which
//!   everything it starts inherits, refuses to set its limits and priority;
//! - nothing outlives a command: all processes but itself are killed and reaped when the foreground command
//!   or its time is over, which only PID 1 of a PID namespace can do. It refuses to be anything else.

mod changes;
mod commands;
mod fill;
#[allow(dead_code, reason = "it knows the other processor's calls as well")]
mod filter;
mod output;
mod requests;
mod system;
#[allow(dead_code, reason = "the host's half")]
#[path = "../src/sandbox/wire.rs"]
mod wire;
mod workspace;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufReader, Read},
    os::fd::AsFd as _,
    process::ExitCode,
};

use requests::{Answered, Supervisor};

fn main() -> ExitCode {
    let undumpable = system::become_undumpable();
    let arguments: Vec<_> = std::env::args_os().collect();
    let [_, workspace] = &arguments[..] else {
        return refuse("usage: supervisor WORKSPACE");
    };
    if system::process_id() != 1 {
        return refuse("the sandbox supervisor must be PID 1 of its PID namespace");
    }
    match undumpable.and_then(|()| serve(workspace)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("sandbox supervisor: {error}")),
    }
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::from(2)
}

/// Until the host hangs up. PID 1's end is everyone's.
fn serve(workspace: &OsStr) -> io::Result<()> {
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    // Rust's runtime handles these two, and a handled signal can be sent by anyone inside.
    system::default_signals(&[SIGBUS, SIGSEGV]);
    system::set_umask(0o022);
    system::confine(&filter::program(&filter::NATIVE))?;
    let host = File::from(system::take_stream(0)?);
    let to_host = File::from(system::take_stream(1)?);
    if let Some(home) = std::env::var_os("HOME") {
        // Where it cannot be made, programs that need it say so.
        let _ = std::fs::create_dir_all(home);
    }
    let mut supervisor = Supervisor::new(workspace, host.as_fd(), to_host)?;
    let mut from_host = BufReader::with_capacity(wire::CHUNK, &host);
    while let Some(request) = hear(&mut from_host)? {
        if supervisor.answer(request)? == Answered::HungUp {
            break;
        }
    }
    Ok(())
}

/// The next request; `None` when the host has hung up.
fn hear(from_host: &mut impl Read) -> io::Result<Option<wire::Request>> {
    let mut length = [0; 4];
    match from_host.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > wire::MAX_FRAME {
        return Err(io::Error::other("the host sent a frame that is too long"));
    }
    let mut frame = vec![0; length];
    from_host.read_exact(&mut frame)?;
    wire::Request::decode(&frame).map(Some).map_err(|wire::Malformed(what)| io::Error::other(what))
}
