//! Sandboxes in Docker containers, through the engine's socket.
//!
//! What makes one: an image with tools (any that has bash), the supervisor as first process from a volume
//! of its own, the repository in `/workspace`, its history in `/history`. The host talks to the
//! supervisor over the container's standard streams; no `exec`, no host folder, no network.
//!
//! Invariants:
//!
//! - All read-only sandboxes of a run mount one workspace, which a *holder* container fills and keeps
//!   alive; the kernel keeps them from writing to it. Every read-write sandbox has a workspace of its own.
//! - No container serves two runs, nor two agents.
//! - Everything created carries labels from its first moment, so that [`reap`] finds it whatever happens
//!   to this process.
//! - The engine is told ids, names that we made and settings; never text that a model or an issue wrote.

mod attach;
mod engine;
mod facts;
mod fill;
mod labels;
mod opened;
mod reaper;
mod sandbox;
mod sandboxes;
mod settings;
mod spec;
mod volumes;

pub use engine::Engine;
pub use labels::InstanceId;
pub use reaper::{ActiveRuns, REAP_EVERY, reap};
pub use sandboxes::{DockerRun, DockerSandboxes};
pub use settings::DockerSettings;
