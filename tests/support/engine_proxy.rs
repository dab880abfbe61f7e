//! Stands between acquire and the engine, and can be cut: an engine that stops in mid-run, without
//! stopping the one that everybody uses.

use std::path::PathBuf;

use tokio::{
    net::{UnixListener, UnixStream},
    task::{JoinHandle, JoinSet},
};

fn engine_socket() -> String {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    host.strip_prefix("unix://").unwrap_or("/var/run/docker.sock").to_owned()
}

pub struct EngineProxy {
    folder: tempfile::TempDir,
    task: JoinHandle<()>,
}

impl EngineProxy {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        let task = tokio::spawn(async move {
            // Dropped with the task, and the connections with it.
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut engine = UnixStream::connect(engine_socket()).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
                });
            }
        });
        Self { folder, task }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Ends all connections and refuses new ones, as an engine that stops.
    pub async fn cut(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        std::fs::remove_file(self.socket()).unwrap();
    }

    /// From now on takes connections and never answers, as an engine that hangs.
    #[allow(dead_code, reason = "not every binary has such a test")]
    pub async fn hang(&mut self) {
        self.cut().await;
        let listener = UnixListener::bind(self.socket()).unwrap();
        self.task = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                held.push(client);
            }
        });
    }
}

impl Drop for EngineProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
