//! Sources of knowledge: what is learned before the repair. One file a source.

mod none;
mod qa;

pub use none::Nothing;
pub use qa::QuestionsAndAnswers;
