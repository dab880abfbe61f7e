//! acquire: know before fix. The map of the house; `docs/architecture.md` tells more.

// `println!` panics where its stream takes nothing more, which must not end a run: `cli::output` speaks.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod agent; // the scaffold under every agent: loop, tools, observations, limits
pub mod bench; // many runs compared: instances by arms, scores, one table
pub mod cli; // the commands; each reads arguments and calls one function of `runs`
pub mod config; // operator settings: acquire.toml and ACQUIRE_* variables
pub mod domain; // the product's own words as types that are valid once they exist
pub mod gate; // what may come in and go out; pure
pub mod github; // GitHub's API, read-only so far: an issue by its number
pub mod index; // where symbols are defined and called
pub mod method; // THE METHOD: issue, questions, answers, knowledge, patch
pub mod model; // chat clients: wire format, retries, prices, record and replay
pub mod repo; // git through libgit2: mirrors, transport, tree in, tree out
pub mod report; // every word that users read
pub mod runs; // one run from what is asked to the files it leaves: where the rooms meet
pub mod sandbox; // Docker and namespaces: walls, supervisor, workspaces, reaper
pub mod store; // what a run leaves on disk: turns, stages, saved trees, results
