//! `prepare`, first part: what a second run on a repository pays of what the first paid.
//!
//! A repository of Sphinx's size is served by the real `git http-backend` on loopback: the network costs
//! nothing, so what is measured is work. In each round a first run with an empty cache does its work on the
//! mirror; a second run with the same cache does the same and goes on until its first sandbox has run a
//! command. Beside the latter stands the same from the mirror on, which is then at hand: to start containers
//! and to fill them. One that nobody counts comes before both, since whatever comes first after a minute of
//! packing waits for the disk; then the two take turns in who comes first.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use acquire::{
    agent::harvest::Harvester,
    domain::{AgentName, TreeChanges},
    gate::harvest::HarvestLimits,
    method::ports::{Access, CommandExit, CommandLimits, History, Sandboxes, SourceTree},
    repo::{Mirror, Settings, Source},
};
use anyhow::ensure;

use super::{
    repositories,
    rows::{Row, median},
    sandboxes::{self, SystemClock},
    server::Server,
};

const ROUNDS: usize = 10;

/// Seconds of one round.
#[derive(Debug)]
struct Round {
    first: f64,
    /// Of the first run's, for packing history.
    first_packing: f64,
    second: f64,
    whole: f64,
    alone: f64,
}

pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let repository = repositories::with_long_history()?;
    let server = Server::start(&repository);
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let round = round(&server.url(), number % 2 == 0).await?;
        eprintln!("run: round {number} of {ROUNDS}: {round:?}");
        rounds.push(round);
    }
    let of = |seconds: fn(&Round) -> f64| median(rounds.iter().map(seconds).collect());
    let (commits, files) = (repositories::COMMITS as f64, repositories::FILES as f64);
    Ok(vec![
        Row::told("prepare_repository_pack", pack_bytes(&repository)? as f64 / 1e6, "MB"),
        Row::told("prepare_repository_commits", commits, "commits"),
        Row::told("prepare_repository_files", files, "files"),
        Row::told("prepare_second_mirror", of(|r| r.second), "s").beside("the first run", of(|r| r.first)),
        Row::at_most("prepare_second_mirror_share", of(|r| r.second / r.first), "of the first run's", 0.2),
        Row::told("prepare_first_packing_share", of(|r| r.first_packing / r.first), "of its mirror work"),
        Row::told("prepare_second_whole", of(|r| r.whole), "s")
            .beside("starting and filling containers alone", of(|r| r.alone)),
        Row::at_most(
            "prepare_second_whole_share",
            of(|r| r.whole / r.alone),
            "of starting and filling containers alone",
            1.1,
        ),
    ])
}

async fn round(url: &str, alone_first: bool) -> anyhow::Result<Round> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let cache = at("mirrors");

    let begun = Instant::now();
    let tree = read(url, &cache).await?;
    let read_first = begun.elapsed();
    tree.history(at("first"), sandboxes::HISTORY_BYTES).await?;
    let first = begun.elapsed();

    alone(url, &cache, at("uncounted")).await?;
    let alone_before = if alone_first { Some(alone(url, &cache, at("alone")).await?) } else { None };
    let (second, whole) = whole(url, &cache, at("second")).await?;
    let alone = match alone_before {
        Some(seconds) => seconds,
        None => alone(url, &cache, at("alone")).await?,
    };

    let first_packing = (first - read_first).as_secs_f64();
    Ok(Round { first: first.as_secs_f64(), first_packing, second, whole, alone })
}

/// A run's way to its first command: seconds until the mirror's work was done, and until the end.
async fn whole(url: &str, cache: &Path, history: PathBuf) -> anyhow::Result<(f64, f64)> {
    let begun = Instant::now();
    let tree = read(url, cache).await?;
    let (history, _) = tokio::try_join!(tree.history(history, sandboxes::HISTORY_BYTES), tree.entries())?;
    let mirror = begun.elapsed().as_secs_f64();
    let (opened, harvester) =
        tokio::join!(open_one(tree.clone(), history), Harvester::new(&*tree, HarvestLimits::default()));
    let (opened, _) = (opened?, harvester?);
    let whole = begun.elapsed().as_secs_f64();
    opened.close().await;
    Ok((mirror, whole))
}

/// Seconds of the part that no mirror can spare: containers, and what they are filled with.
async fn alone(url: &str, cache: &Path, history: PathBuf) -> anyhow::Result<f64> {
    let tree = read(url, cache).await?;
    let history = tree.history(history, sandboxes::HISTORY_BYTES).await?;
    tree.entries().await?;
    let begun = Instant::now();
    let opened = open_one(tree, history).await?;
    let alone = begun.elapsed().as_secs_f64();
    opened.close().await;
    Ok(alone)
}

async fn read(url: &str, cache: &Path) -> anyhow::Result<Arc<dyn SourceTree>> {
    let mirror = Mirror::open(Source::parse(url)?, Settings::new(cache.to_owned())).await?;
    Ok(Arc::new(mirror.at(None).await?))
}

/// A run's sandboxes, the first of which has run a command.
async fn open_one(tree: Arc<dyn SourceTree>, history: History) -> anyhow::Result<impl Sandboxes> {
    let clock = SystemClock::start();
    let run = sandboxes::new_run(&*clock)?;
    let opened = sandboxes::start(run, tree, history, clock).await?;
    ready(&opened, &AgentName::probe()).await?;
    Ok(opened)
}

/// Opens an agent's sandbox and runs a command in it.
pub async fn ready(sandboxes: &dyn Sandboxes, agent: &AgentName) -> anyhow::Result<()> {
    let sandbox = sandboxes.open(agent, Access::ReadOnly, &TreeChanges::default()).await?;
    let limits = CommandLimits { timeout: std::time::Duration::from_secs(60), keep_bytes: 1_000 };
    let ran = sandbox.run("true", limits).await?;
    ensure!(ran.exit == CommandExit::Code(0), "`true` ended with {:?}", ran.exit);
    Ok(())
}

fn pack_bytes(repository: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(repository.join("objects/pack"))? {
        let file = file?;
        if file.path().extension().is_some_and(|extension| extension == "pack") {
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}
