//! The method: from an issue to questions, answers, knowledge and a patch.

pub mod ports;
