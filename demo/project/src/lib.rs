//! Durations as people write them.

mod error;
mod format;
mod parse;
mod units;

pub use error::{ParseError, Reason};
pub use format::format;
pub use parse::parse;
