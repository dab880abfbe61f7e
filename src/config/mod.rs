//! The operator's settings: `acquire.toml`, overridden by `ACQUIRE_SECTION__KEY` variables.
//!
//! Invariants:
//! - **Nothing is guessed**: an unknown key, a wrong type and a number out of range are errors that name the
//!   key, where it was set, and what would be right.
//! - **Defaults live in one place**, the `Default` of each section; `acquire.example.toml` is tested to say
//!   the same.
//! - **No message shows a secret**: errors never quote a file's text, nor a key's value.

mod check;
mod error;
mod explain;
mod load;
mod model;
mod settings;

pub use check::RUN_USD;
pub use error::ConfigError;
pub use load::{Environment, Loaded, load};
pub use model::{ModelOverride, ModelSection, Protocol, Role, RoleModel, Tools};
pub use settings::{
    AgentLimits, GitSection, LimitsSection, MethodSection, PathsSection, RunLimits, SandboxKind,
    SandboxSection, Settings, Temperatures,
};
