//! Where agents run commands: a supervisor as PID 1 in a container or in Linux namespaces.
//!
//! The engines differ in how they build the walls; the conversation with the supervisor inside
//! ([`session`], [`wire`]) and what it promises is the same for all of them.

pub mod docker;
pub mod namespaces;
pub mod text;

pub(crate) mod session;
pub(crate) mod wire;

pub use text::observation_text;

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
