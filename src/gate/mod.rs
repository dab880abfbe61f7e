//! What may come in and go out. Pure: values in, values out; no model can argue with it.

mod edits;
pub mod intake;
mod markdown;
pub mod sanitize;
