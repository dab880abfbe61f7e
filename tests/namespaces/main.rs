//! The namespaces sandbox: what every engine must hold, and what is its own.

#[path = "../support/sandbox_conformance.rs"]
mod sandbox_conformance;

use std::{path::PathBuf, sync::Arc};

use acquire::{
    domain::RunId,
    method::ports::{History, Sandboxes, SourceTree},
    sandbox::namespaces::{Namespaces, Settings},
};

async fn sandboxes(tree: Arc<dyn SourceTree>, history: History) -> Arc<dyn Sandboxes> {
    let run = RunId::new(jiff::Timestamp::now(), rand::<3>());
    let base = std::env::temp_dir().join("acquire-namespaces-tests");
    let launcher = PathBuf::from(env!("CARGO_BIN_EXE_acquire"));
    Arc::new(Namespaces::start(run, tree, Some(history), Settings::default(), &base, launcher).await.unwrap())
}

fn rand<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

sandbox_conformance!(sandboxes);
