//! Chat models: settings, prices, two wire formats over HTTP, tools for models that call none, and replies
//! recorded and replayed.
//!
//! Everything here is a [`crate::method::ports::ChatModel`]; nothing here knows what an agent does with a
//! reply. Two rules hold throughout: what a model wrote reaches the caller as it came, malformed or not,
//! and a key appears in no error, log or `Debug` output.

mod anthropic;
mod client;
mod dialect;
mod digest;
mod failure;
mod history;
mod http;
mod openai;
mod price;
mod provider_state;
mod record;
mod replay;
mod retry;
mod settings;
mod text_tools;
mod usage;

pub use client::HttpModel;
pub use price::list_price;
pub use record::{Header, Recorder, Recording, RecordingError, Redact};
pub use replay::{Replayer, Strictness};
pub use retry::{SystemTimer, Timer};
pub use settings::{ModelSettings, Protocol, SettingsError};
pub use text_tools::{TextTools, TextWords, only_text};

use std::sync::Arc;

use crate::method::ports::ChatModel;

/// The model that these settings name; nothing is sent yet. `variable` reads the environment. Agents that use
/// the same model share one, since it remembers what its provider refuses.
pub fn connect(
    settings: &ModelSettings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Arc<dyn ChatModel>, SettingsError> {
    Ok(Arc::new(HttpModel::new(settings, variable)?))
}

/// Makes ring the process's TLS provider; the HTTP library is built without one of its own. May be called
/// any number of times: the first call counts.
pub fn install_tls() {
    // The error says that a provider is installed already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
