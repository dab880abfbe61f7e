//! How much memory of its own a process has, over time.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::{sync::watch, task::JoinHandle};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(20);

/// `RssAnon` of the kernel: pages in memory that no file backs, in bytes.
pub fn own_bytes(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // A process that has ended and was not waited for has no such line.
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} tells no RssAnon"))? * 1024)
}

/// Looks at a process until it ends or is told to stop.
pub struct Watch {
    looking: JoinHandle<Vec<(Instant, u64)>>,
    stop: watch::Sender<bool>,
}

impl Watch {
    pub fn start(pid: u32) -> Self {
        let (stop, stopped) = watch::channel(false);
        // A thread of its own: it must come to look while the runtime is busy with the model.
        let looking = tokio::task::spawn_blocking(move || {
            let mut seen = Vec::new();
            while let (false, Ok(bytes)) = (*stopped.borrow(), own_bytes(pid)) {
                seen.push((Instant::now(), bytes));
                std::thread::sleep(EVERY);
            }
            seen
        });
        Self { looking, stop }
    }

    /// What was seen, in order.
    pub async fn stop(self) -> anyhow::Result<Vec<(Instant, u64)>> {
        // It has stopped by itself where the process ended.
        let _ = self.stop.send(true);
        let seen = self.looking.await?;
        anyhow::ensure!(!seen.is_empty(), "the process ended before it could be looked at");
        Ok(seen)
    }
}
