//! The model client against an endpoint that misbehaves in every way the wire allows, recordings, and
//! GitHub's issue API.

mod anthropic;
mod conversation;
mod endpoint;
mod exchanges;
mod failures;
mod issues;
mod recordings;
mod refusals;
