//! `memory`: what the program itself holds in memory (RssAnon), in runs of the worst kind.
//!
//! The first is as long as limits allow: eight Answerers at once, of 150 steps each, then a Resolver of 150,
//! every observation of nearly 10 kB. So each conversation comes to 1.5 MB. In the second, an agent prints
//! without end for five seconds.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use acquire::{
    domain::{FileMode, RepoPath},
    repo,
};
use anyhow::{Context, ensure};
use serde_json::json;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers};

use super::{
    program::{Home, Task},
    resident::Watch,
    rows::{Row, median},
    script::{Reply, bash, questions, submit, template},
};

const LONG_RUNS: usize = 10;
const LONG: Agents =
    Agents { questions: 8, steps: 150, command: "head -c 7300 /dev/urandom | base64 | head -c 9850" };
/// Least that a long run's last conversation must have come to, in bytes of its request.
const LONG_CONVERSATION: usize = 1_400_000;
const ENDLESS_RUNS: usize = 10;
/// Its Answerer takes a step before, so that its sandbox stands.
const ENDLESS: Agents = Agents { questions: 1, steps: 3, command: "timeout 5 yes" };
const MB: f64 = 1e6;

/// What the agents of a run do: all but the last step run the command, the last submits.
#[derive(Clone, Copy)]
struct Agents {
    questions: usize,
    steps: usize,
    command: &'static str,
}

pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let mut rows = long_run().await?;
    rows.extend(endless_output().await?);
    Ok(rows)
}

async fn long_run() -> anyhow::Result<Vec<Row>> {
    let mut peaks = Vec::new();
    for number in 1..=LONG_RUNS {
        let (seen, asked) = watched(LONG, true).await?;
        let longest = asked.iter().map(|asked| asked.bytes).max().context("it asked nothing")?;
        ensure!(longest >= LONG_CONVERSATION, "the longest request had {longest} bytes only");
        let wanted = (LONG.questions + 1) * LONG.steps + 1;
        ensure!(asked.len() == wanted, "it asked {} times instead of {wanted}", asked.len());
        let peak = seen.iter().map(|(_, bytes)| *bytes).max().context("nothing was seen")? as f64 / MB;
        eprintln!("run: {number} of {LONG_RUNS}: {peak} MB at most");
        peaks.push(peak);
    }
    let unit = "MB (10^6 bytes) of RssAnon at most; median of 10 runs";
    Ok(vec![Row::at_most("memory_long_run", median(peaks), unit, 80.0)])
}

async fn endless_output() -> anyhow::Result<Vec<Row>> {
    let mut growths = Vec::new();
    for number in 1..=ENDLESS_RUNS {
        let (seen, asked) = watched(ENDLESS, false).await?;
        // The first step's command prints as well, but that step is there for the sandbox to start.
        let [.., begun, ended] = &asked[..] else { anyhow::bail!("it asked {} times", asked.len()) };
        let seconds = (ended.at - begun.at).as_secs_f64();
        ensure!(seconds > 4.5, "the command ended after {seconds} s");
        let before = seen.iter().rfind(|(at, _)| *at <= begun.at).context("nothing was seen before it")?.1;
        let during = seen.iter().filter(|(at, _)| (begun.at..ended.at).contains(at)).map(|(_, bytes)| *bytes);
        let growth = during.max().context("nothing was seen meanwhile")?.saturating_sub(before) as f64 / MB;
        eprintln!("run: {number} of {ENDLESS_RUNS}: grew by {growth} MB");
        growths.push(growth);
    }
    Ok(vec![Row::at_most("memory_endless_output", median(growths), "MB (10^6 bytes) more of RssAnon", 5.0)])
}

/// A run's memory over time, and what it asked the model.
async fn watched(agents: Agents, patch: bool) -> anyhow::Result<(Vec<(Instant, u64)>, Vec<Asked>)> {
    let home = Home::new()?;
    let repo = home.path("repo");
    let file = RepoPath::parse("src/app.py")?;
    let files = vec![(file, FileMode::Regular, b"print('hello')\n".to_vec())];
    repo::create_repository(repo.clone(), files, "Start".to_owned()).await?;
    let asked = Arc::default();
    // A conversation's requests come to a gigabyte.
    let server = MockServer::builder().disable_request_recording().start().await;
    let endpoint = Endpoint { agents, asked: Arc::clone(&asked) };
    Mock::given(matchers::method("POST")).respond_with(endpoint).mount(&server).await;
    let run = home.solve(&Task {
        repo: &repo,
        issue: "# It says hello\n\nIt should say more.\n",
        base_url: &format!("{}/v1", server.uri()),
        questions: agents.questions,
        patch,
    })?;
    let watch = Watch::start(run.pid());
    let ended = run.finish().await;
    let seen = watch.stop().await?;
    ended?;
    let asked = std::mem::take(&mut *asked.lock().expect("nothing panics while it is held"));
    Ok((seen, asked))
}

/// One request.
struct Asked {
    at: Instant,
    bytes: usize,
}

/// A model that holds nothing of what it is sent. It looks for JSON as it stands between values: inside of
/// strings the quotes would be escaped.
struct Endpoint {
    agents: Agents,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Respond for Endpoint {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let asked = Asked { at: Instant::now(), bytes: request.body.len() };
        self.asked.lock().expect("nothing panics while it is held").push(asked);
        let count = |json: &str| memchr::memmem::find_iter(&request.body, json).count();
        let turn = count(r#""role":"assistant""#);
        template(&self.reply(turn, count(r#""tools":"#) > 0, count(r#""citations":"#) > 0), turn, 0)
    }
}

impl Endpoint {
    fn reply(&self, turn: usize, acts: bool, cites: bool) -> Reply {
        if !acts {
            let asked = (1..=self.agents.questions).map(|number| format!("What does part {number} do?"));
            return questions(&asked.collect::<Vec<_>>());
        }
        if turn + 1 < self.agents.steps {
            return bash(self.agents.command);
        }
        submit(match cites {
            true => json!({"answer": "", "citations": [], "gaps": ["Nothing was found."]}),
            false => json!({"summary": "Nothing to do.", "used_answers": [], "leave_out": []}),
        })
    }
}
