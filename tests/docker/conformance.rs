//! What every sandbox engine must hold, on Docker.

use std::sync::Arc;

use acquire::{
    method::ports::{History, Sandboxes, SourceTree},
    sandbox::docker::DockerSettings,
};

use crate::{
    sandbox_conformance,
    support::{Installation, RunOf, engine_answers, settings},
};

async fn sandboxes(tree: Arc<dyn SourceTree>, history: History) -> Option<Arc<dyn Sandboxes>> {
    if !engine_answers().await {
        return None;
    }
    let installation = Installation::new().await;
    // Everything as an operator gets it.
    let settings = DockerSettings { image: settings().image, ..DockerSettings::default() };
    let run = RunOf { settings, source: tree, history, ..installation.run() };
    Some(Arc::new(installation.start(run).await.unwrap()))
}

sandbox_conformance!(sandboxes);
