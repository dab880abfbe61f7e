//! Anthropic's messages.

mod reply;
mod request;

pub(super) use reply::parse;
pub(super) use request::body;

/// The field of a provider's state that holds a reply's blocks as they came.
const CONTENT: &str = "content";
