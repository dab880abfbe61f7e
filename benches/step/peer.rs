//! mini-swe-agent in a process of its own.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

pub const NAME: &str = "mini-swe-agent 2.4.6";
/// The Python that has it; set by `scripts/bench`.
const PYTHON: &str = "BENCH_PEER_PYTHON";

pub struct Peer {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// Waits until it is ready. The error says why there is none.
    pub async fn start(image: &str) -> Result<Self, String> {
        let python = std::env::var_os(PYTHON).ok_or("scripts/bench could not install it")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/step/peer.py");
        let mut process = Command::new(python)
            .arg(script)
            .args([image, super::SYSTEM, super::TASK])
            // Else it reads the settings of whoever runs this, and greets.
            .env("MSWEA_GLOBAL_CONFIG_DIR", std::env::temp_dir().join("acquire-bench-peer"))
            .env("MSWEA_SILENT_STARTUP", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("it does not start: {error}"))?;
        let (input, output) = process.stdin.take().zip(process.stdout.take()).expect("both are pipes");
        let mut peer = Self { process, input, output: BufReader::new(output).lines() };
        match peer.read().await {
            Ok(_) => Ok(peer),
            Err(error) => Err(format!("it did not come up: {error:#}")),
        }
    }

    pub async fn steps(&mut self, number: u32) -> anyhow::Result<Vec<Duration>> {
        self.input.write_all(format!("{number}\n").as_bytes()).await?;
        let steps = self.read().await?;
        ensure!(steps.len() == number as usize, "it took {} steps instead of {number}", steps.len());
        Ok(steps)
    }

    pub async fn close(mut self) -> anyhow::Result<()> {
        drop(self.input);
        let ended = self.process.wait().await?;
        ensure!(ended.success(), "{NAME} ended with {ended}");
        Ok(())
    }

    async fn read(&mut self) -> anyhow::Result<Vec<Duration>> {
        let line = self.output.next_line().await?.context("it ended early; see above")?;
        let seconds: Vec<f64> = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
        Ok(seconds.into_iter().map(Duration::from_secs_f64).collect())
    }
}
