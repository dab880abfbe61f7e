//! `prepare`, second part: sandboxes for four agents on a tree of 100 MB, beside a container with a clone for
//! each.
//!
//! Ours is everything from the repository on: its mirror is brought up to date, its history packed, one volume
//! filled, four sandboxes opened, in each a command run. The peer is `docker run` of the same image for each
//! agent, all at once, in which `git clone` copies the repository from a folder that is bound into it. Both
//! are stopped when the last of the four has run its command; tidying up counts for neither.

use std::{path::Path, process::Stdio, sync::Arc, time::Instant};

use acquire::{
    domain::{AgentName, RunId},
    method::ports::{Sandboxes, SourceTree},
    repo::{Mirror, Settings, Source},
    sandbox::docker::DockerSettings,
};
use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::{
    repositories,
    rows::{Row, median},
    sandboxes::{self, SystemClock},
    second_run::ready,
};

const AGENTS: usize = 4;
const ROUNDS: usize = 10;
const PEER: &str = "docker run and git clone for each agent";
const CLONE: &str =
    "git config --global safe.directory '*' && git clone --quiet /source /tmp/clone && true && echo ready";

pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let repository = repositories::with_large_tree()?;
    let folder = tempfile::tempdir()?;
    let cache = folder.path().join("mirrors");
    let (mut ours, mut peer, mut volumes) = (Vec::new(), Vec::new(), Vec::new());
    // The first round fills the mirror and the kernel's cache.
    for number in 0..=ROUNDS {
        let (seconds, found) = open_ours(&repository, &cache).await?;
        let theirs = open_peer(&repository).await?;
        eprintln!("run: round {number} of {ROUNDS}: {seconds} s, {found} volumes; the peer {theirs} s");
        if number > 0 {
            ours.push(seconds);
            peer.push(theirs);
            volumes.push(found);
        }
    }
    let most = volumes.into_iter().max().context("there were rounds")?;
    let times = median(ours.iter().zip(&peer).map(|(ours, peer)| peer / ours).collect());
    Ok(vec![
        Row::told("prepare_four_sandboxes", median(ours), "s").beside(PEER, median(peer)),
        Row {
            target: Some("> 1".to_owned()),
            ok: times > 1.0,
            peer: Some(PEER.to_owned()),
            ..Row::told("prepare_four_sandboxes_ratio", times, "times faster")
        },
        Row {
            target: Some("= 1".to_owned()),
            ok: most == 1,
            ..Row::told("prepare_four_sandboxes_uploads", most as f64, "workspace volumes for 4 agents")
        },
    ])
}

/// Seconds, and how many volumes hold the tree.
async fn open_ours(repository: &Path, cache: &Path) -> anyhow::Result<(f64, usize)> {
    let history = tempfile::tempdir()?;
    let begun = Instant::now();
    let settings = Settings::new(cache.to_owned());
    let mirror = Mirror::open(Source::Folder(repository.to_owned()), settings).await?;
    let tree: Arc<dyn SourceTree> = Arc::new(mirror.at(None).await?);
    let history = tree.history(history.path().join("objects"), sandboxes::HISTORY_BYTES).await?;
    let clock = SystemClock::start();
    let run = sandboxes::new_run(&*clock)?;
    let opened = sandboxes::start(run.clone(), tree, history, clock).await?;
    let agents: Vec<AgentName> = (1..=AGENTS).map(AgentName::answerer).collect();
    let all_ready = try_join_all(agents.iter().map(|agent| ready(&opened, agent))).await;
    let seconds = begun.elapsed().as_secs_f64();
    let found = workspace_volumes(&run).await;
    opened.close().await;
    all_ready?;
    Ok((seconds, found?))
}

/// Volumes of the run besides those of the supervisor and the history.
async fn workspace_volumes(run: &RunId) -> anyhow::Result<usize> {
    let filter = format!("name=acquire-{run}-");
    let listed = docker(&["volume", "ls", "--quiet", "--filter", &filter]).output().await?;
    ensure!(listed.status.success(), "docker volume ls: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout)?;
    let workspaces = names.lines().filter(|n| !n.ends_with("-supervisor") && !n.ends_with("-history"));
    Ok(workspaces.count())
}

/// Seconds until all have their clone.
async fn open_peer(repository: &Path) -> anyhow::Result<f64> {
    let bound = format!("{}:/source:ro", repository.display());
    let image = DockerSettings::default().image;
    let begun = Instant::now();
    let clone = || async {
        let mut child = docker(&["run", "--rm", "--network", "none", "--volume", &bound])
            .args([&image, "bash", "-c", CLONE])
            .stdout(Stdio::piped())
            .spawn()
            .context("the peer needs the docker command")?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let said = lines.next_line().await?;
        ensure!(said.as_deref() == Some("ready"), "the peer's container ended early; see above");
        Ok::<_, anyhow::Error>((Instant::now(), child))
    };
    let mut last = begun;
    for (ready, mut child) in try_join_all((0..AGENTS).map(|_| clone())).await? {
        last = last.max(ready);
        child.wait().await?;
    }
    Ok((last - begun).as_secs_f64())
}

fn docker(arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}
