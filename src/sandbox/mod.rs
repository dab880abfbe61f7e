//! Where agents run commands: a supervisor as PID 1 in a container or in Linux namespaces.
//!
//! The engines differ in how they build the walls; the conversation with the supervisor inside
//! ([`session`], [`wire`]) and what it promises is the same for all of them.

pub mod docker;
pub(crate) mod lock;
pub mod namespaces;

pub(crate) mod session;
#[allow(dead_code, reason = "the supervisor's half")]
pub(crate) mod wire;

pub use session::CommandBudget;

/// The supervisor: a static program for this machine's processor. An engine puts it into the sandbox as a
/// file of mode 0111: what cannot be read, the kernel makes non-dumpable from its first instruction.
pub(crate) const SUPERVISOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/supervisor"));

/// The supervisor's own modules, so that they are tested and checked with everything else.
#[cfg(test)]
#[allow(dead_code, reason = "its `main` is not here")]
#[path = "../../supervisor"]
mod supervisor {
    use super::wire;

    mod changes;
    mod commands;
    mod fill;
    mod filter;
    mod output;
    mod requests;
    mod system;
    mod workspace;
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

    /// Anywhere else, ending "everything else" would end the processes of a user, or of the machine.
    #[test]
    fn the_supervisor_refuses_to_be_anything_but_pid_1() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("supervisor");
        fs::write(&program, super::SUPERVISOR).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o111)).unwrap();
        let output = Command::new(&program).arg(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "the sandbox supervisor must be PID 1 of its PID namespace\n");
        assert!(output.stdout.is_empty());
        assert_eq!(Command::new(&program).output().unwrap().stderr, b"usage: supervisor WORKSPACE\n");
    }
}
