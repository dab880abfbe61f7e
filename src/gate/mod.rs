//! What may come in and go out. Pure: values in, values out; no model can argue with it.

pub(crate) mod edits;
pub mod harvest;
pub mod intake;
pub(crate) mod markdown;
pub mod prose;
pub mod questions;
pub mod sanitize;
pub mod secrets;
pub mod shown;
pub mod visible;
