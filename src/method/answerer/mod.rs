//! Strategies that answer a question.

mod explore;

pub use explore::Explore;
