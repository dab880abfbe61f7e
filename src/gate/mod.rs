//! What may come in and go out. Pure: values in, values out; no model can argue with it.

mod edits;
pub mod harvest;
pub mod intake;
mod markdown;
pub mod prose;
pub mod sanitize;
pub mod secrets;
pub mod shown;
