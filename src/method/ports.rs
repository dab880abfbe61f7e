//! What the method needs of the outside, in its own words.
//!
//! Every other room implements these traits or is called through them; nothing else of the outside is
//! known here. Implementations: `model` ([`ChatModel`]), `sandbox` ([`Sandboxes`], [`Sandbox`]), `repo`
//! ([`SourceTree`]), `index` ([`Symbols`]), `agent` ([`Budget`], [`Tool`]), `store` ([`RunStore`]), `cli`
//! ([`Progress`]); the strategies lie in `method` itself, one file each.

mod budget;
mod chat;
mod progress;
mod sandbox;
mod source;
mod state;
mod strategies;
mod tools;

pub use budget::*;
pub use chat::*;
pub use progress::*;
pub use sandbox::*;
pub use source::*;
pub use state::*;
pub use strategies::*;
pub use tools::*;
