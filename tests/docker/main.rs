//! The Docker sandbox against a real engine.
//!
//! As root a missing engine fails every test here; for other users the tests say that they are skipped.
//! The image is `acquire-sandbox:1` (made by scripts/sandbox-image), or what ACQUIRE_TEST_IMAGE names.

#[path = "../support/sandbox_conformance.rs"]
mod sandbox_conformance;

mod broken_engine;
mod confinement;
mod conformance;
mod limits;
mod opening;
mod reaper;
mod support;
mod workspace;
