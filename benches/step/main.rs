//! `scripts/bench step`: what a step of an agent costs besides its model, beside mini-swe-agent.
//!
//! A step is what lies between the model's reply and the next request. Ours is the real thing: the agent's
//! loop, its shell tool, a read-write sandbox in Docker with the supervisor, the trajectory appended, the
//! workspace listed for changes, the ledger kept; on a repository of 1,500 files. The peer's is described
//! in `peer.py`. Both run `true`, in the same image on the same engine, and take turns in rounds, so that
//! whatever else the machine does hits both.

mod ours;
mod peer;
#[path = "../rows.rs"]
mod rows;
#[path = "../sandboxes.rs"]
mod sandboxes;

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use ours::Ours;
use peer::Peer;
use rows::{Row, rounded};

const ROUNDS: u32 = 20;
const STEPS_A_ROUND: u32 = 10;
const WARM_UP: u32 = 5;
/// Between rounds, so that neither pays for what the engine still has to tidy up after the other.
const REST: Duration = Duration::from_millis(500);
/// Both agents are started with these.
const SYSTEM: &str = "You are a careful engineer. Use the tool to run commands.";
const TASK: &str = "Find out what `true` does.";

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    match runtime.block_on(measure()) {
        Ok(rows) => {
            rows.iter().for_each(Row::print);
            ExitCode::from(u8::from(rows.iter().any(|row| !row.ok)))
        }
        Err(error) => {
            eprintln!("step: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> anyhow::Result<Vec<Row>> {
    let image = ours::settings().image;
    let mut peer = Peer::start(&image).await;
    let ours = Ours::start().await?;
    let measured = take_turns(&ours, &mut peer).await;
    ours.close().await?;
    if let Ok(peer) = peer {
        peer.close().await?;
    }
    let (our_steps, peer_steps) = measured?;
    Ok(rows(our_steps, peer_steps))
}

type Steps = Vec<Duration>;

/// The steps of both; the peer's or why there are none.
async fn take_turns(
    ours: &Ours,
    peer: &mut Result<Peer, String>,
) -> anyhow::Result<(Steps, Result<Steps, String>)> {
    let mut our_steps = Vec::new();
    let mut peer_steps = peer.as_ref().map(|_| Vec::new()).map_err(Clone::clone);
    ours.steps(WARM_UP).await?;
    if let Ok(peer) = peer {
        peer.steps(WARM_UP).await?;
    }
    for _ in 0..ROUNDS {
        tokio::time::sleep(REST).await;
        our_steps.extend(ours.steps(STEPS_A_ROUND).await.context("our step")?);
        if let (Ok(peer), Ok(steps)) = (&mut *peer, &mut peer_steps) {
            tokio::time::sleep(REST).await;
            steps.extend(peer.steps(STEPS_A_ROUND).await.context("the peer's step")?);
        }
    }
    Ok((our_steps, peer_steps))
}

fn rows(mut ours: Steps, peer: Result<Steps, String>) -> Vec<Row> {
    let median = milliseconds(percentile(&mut ours, 50));
    let late = milliseconds(percentile(&mut ours, 99));
    let mut rows =
        vec![Row::at_most("step_median", median, "ms", 3.0), Row::at_most("step_p99", late, "ms", 10.0)];
    let ratio =
        Row { target: Some(">= 20".to_owned()), ..Row::told("step_median_ratio", f64::NAN, "times faster") };
    match peer {
        Ok(mut peer) => {
            let theirs = [50, 99].map(|percent| milliseconds(percentile(&mut peer, percent)));
            for (row, (theirs, mine)) in rows.iter_mut().zip(theirs.into_iter().zip([median, late])) {
                row.peer = Some(peer::NAME.to_owned());
                row.peer_value = Some(rounded(theirs));
                row.ratio = Some(rounded(theirs / mine));
            }
            let times = theirs[0] / median;
            let peer = Some(peer::NAME.to_owned());
            rows.push(Row { value: Some(rounded(times)), peer, ok: times >= 20.0, ..ratio });
        }
        Err(why) => {
            let peer = Some(format!("{} is absent: {why}", peer::NAME));
            rows.push(Row { value: None, peer, ok: false, ..ratio });
        }
    }
    rows
}

/// By nearest rank.
fn percentile(steps: &mut [Duration], percent: usize) -> Duration {
    steps.sort_unstable();
    steps[(steps.len() * percent).div_ceil(100) - 1]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
