//! What a model's prose says of itself: its paragraphs, the citations they refer to, and the paths and names
//! that it claims to exist. What is true of that is for others to check.

mod citations;
mod named;
mod paragraphs;

pub use citations::{CitationMark, citation_marks};
pub use named::{Named, named_artifacts};
pub use paragraphs::{Paragraph, ParagraphKind, ends_in_text, paragraphs};
