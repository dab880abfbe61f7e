//! The method: from an issue to questions, answers, knowledge and a patch (ACQUIRE, section III).
//!
//! The paper is "Know Before Fix: QA-Driven Repository Knowledge Acquisition for Software Issue Resolution"; what is
//! cited as ACQUIRE, or the paper, anywhere here is a section or a figure of it.
//!
//! [`run::run`] reads like the paper's Figure 1. Everything outside is reached through [`ports`].

pub mod answerer;
pub mod baseline;
pub mod checkpoint;
pub mod context;
pub mod evidence;
pub mod facts;
pub mod instructions;
pub mod knowledge;
pub mod ports;
pub mod prose;
pub mod question;
pub mod reader;
pub mod resolver;
pub mod run;
