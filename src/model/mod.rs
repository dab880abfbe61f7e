//! Chat models: settings, prices, the OpenAI wire format over HTTP, and replies recorded and replayed.
//!
//! Everything here is a [`crate::method::ports::ChatModel`]; nothing here knows what an agent does with a
//! reply. Two rules hold throughout: what a model wrote reaches the caller as it came, malformed or not,
//! and a key appears in no error, log or `Debug` output.

mod digest;
mod openai;
mod price;
mod record;
mod replay;
mod settings;

pub use openai::{OpenAiModel, SystemTimer, Timer};
pub use price::list_price;
pub use record::{Header, Recorder, Recording, RecordingError, Redact};
pub use replay::{Replayer, Strictness};
pub use settings::{ModelSettings, Protocol, SettingsError};

use std::sync::Arc;

use crate::method::ports::ChatModel;

/// The model that these settings name; nothing is sent yet. `variable` reads the environment. Agents that use
/// the same model share one, since it remembers what its provider refuses.
pub fn connect(
    settings: &ModelSettings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Arc<dyn ChatModel>, SettingsError> {
    match settings.protocol {
        Protocol::OpenAi => Ok(Arc::new(OpenAiModel::new(settings, variable)?)),
    }
}

/// Makes ring the process's TLS provider; the HTTP library is built without one of its own. May be called
/// any number of times: the first call counts.
pub fn install_tls() {
    // The error says that a provider is installed already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
