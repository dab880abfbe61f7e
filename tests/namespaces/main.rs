//! The namespaces sandbox: what every engine must hold, and what is its own.

#[path = "../support/sandbox_conformance.rs"]
mod sandbox_conformance;

mod limits;
mod lives;
mod users;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use acquire::{
    domain::RunId,
    method::ports::{History, SandboxError, Sandboxes, SourceTree},
    sandbox::namespaces::{Namespaces, Settings},
};
use sandbox_conformance::MemoryTree;

/// Another program to launch with; for tests that run where the built one cannot be reached.
const LAUNCHER_VARIABLE: &str = "ACQUIRE_TEST_LAUNCHER";

fn launcher() -> PathBuf {
    std::env::var_os(LAUNCHER_VARIABLE).unwrap_or_else(|| env!("CARGO_BIN_EXE_acquire").into()).into()
}

fn run_id() -> RunId {
    let mut random = [0; 3];
    getrandom::fill(&mut random).unwrap();
    RunId::new(jiff::Timestamp::now(), random)
}

/// Where tests of this user make their folders; each run takes its own away.
fn base() -> PathBuf {
    std::env::temp_dir().join(format!("acquire-tests-{}", nix::unistd::Uid::effective()))
}

async fn sandboxes(tree: Arc<dyn SourceTree>, history: History) -> Arc<dyn Sandboxes> {
    Arc::new(start(&base(), run_id(), tree, history, Settings::default()).await.unwrap())
}

sandbox_conformance!(sandboxes);

async fn start(
    base: &Path,
    run: RunId,
    tree: Arc<dyn SourceTree>,
    history: History,
    settings: Settings,
) -> Result<Namespaces, SandboxError> {
    Namespaces::start(run, tree, Some(history), settings, base, launcher()).await
}

/// The example tree's sandboxes below `base`.
async fn example(base: &Path, settings: Settings) -> Namespaces {
    let tree = MemoryTree::example();
    let history = tree.history_now();
    start(base, run_id(), Arc::new(tree), history, settings).await.unwrap()
}
