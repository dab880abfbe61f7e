//! Sources of knowledge: what is learned before the repair. One file a source.

mod answers;
mod asked;
mod none;
mod proposal;
mod qa;

pub use asked::AskedQuestions;
pub use none::Nothing;
pub use proposal::Proposal;
pub use qa::QuestionsAndAnswers;
