//! Where symbols are defined and called, found in source text alone: nothing of the repository is ever run.

mod language;
mod tags;

pub use tags::SourceSymbols;
