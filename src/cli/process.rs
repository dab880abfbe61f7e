//! What commands need of the process: time, randomness, signals, logs.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{method::ports::Clock, runs::Random};

use super::output::tell;

/// Exit code of a cancelled run, as shells give it for Ctrl-C.
pub const CANCELLED: u8 = 130;

/// Signals that come this soon after the first are the same wish.
const ONE_SIGNAL: Duration = Duration::from_millis(300);
/// How long a cancelled command may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The command or the settings are at fault: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The machine's clock.
pub struct SystemClock(Instant);

impl SystemClock {
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Warnings go to stderr; `RUST_LOG` takes the filters of `tracing`, such as `acquire=debug`.
pub fn start_logging() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Escape sequences would only be noise in a file.
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        // It would tell of a stderr that takes nothing by a panic, on stderr.
        .log_internal_errors(false)
        .init();
}

/// Runs a command to its end.
pub fn block_on<T>(command: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("the async runtime cannot start")?;
    let ended = runtime.block_on(command);
    // A blocking call that was given up must not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ended)
}

pub fn random() -> anyhow::Result<Random> {
    let mut random = Random { run_id: [0; 3], fence: [0; 16] };
    for bytes in [random.run_id.as_mut_slice(), random.fence.as_mut_slice()] {
        getrandom::fill(bytes).map_err(|e| anyhow::anyhow!("the system gives no random bytes: {e}"))?;
    }
    Ok(random)
}

/// Cancels at the first SIGINT or SIGTERM. Ends the process at the second, and when what is under way does not
/// end: a read of a pipe that nobody writes to, say, knows of no cancelling.
pub fn cancel_on_signals() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let cancel = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be listened to")?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be listened to")?;
    let token = cancel.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tell("acquire: stopping; once more ends at once");
        token.cancel();
        // Who signals a program and then its process group, as `timeout` does, means it once.
        tokio::time::sleep(ONE_SIGNAL).await;
        let _ =
            tokio::time::timeout(Duration::ZERO, async { tokio::join!(interrupt.recv(), terminate.recv()) })
                .await;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = tokio::time::sleep(PATIENCE) => tell("acquire: something does not stop; ended"),
        }
        std::process::exit(CANCELLED.into());
    });
    Ok(cancel)
}
