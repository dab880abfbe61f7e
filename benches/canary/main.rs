//! `scripts/prove canary` (S-10): nothing of the host reaches a sandbox, a run's folder or a model.
//!
//! Random strings lie in the host's environment, in files of its user and of the repository's folder that are
//! in no commit, and are the model's key and the GitHub token. A whole `acquire solve` runs with them, on each
//! kind of sandbox; its agents, whose replies are scripted, search everything that they can see.

mod host;
#[path = "../rows.rs"]
mod rows;
#[path = "../../tests/support/script.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod script;

use std::process::ExitCode;

use anyhow::{Context, ensure};
use host::Host;
use rows::Row;
use script::{Model, Script, Who, all_text, bash, questions, submit};
use serde::Deserialize;
use serde_json::{Value, json};

const QUESTION: &str = "What does this machine show?";
/// Places where each search must find its control.
const CONTROLS: usize = 3;

/// What `search.py` tells.
#[derive(Deserialize)]
struct Searched {
    files: u64,
    bytes: u64,
    git_objects_bytes: u64,
    processes: u64,
    unreadable: u64,
    found: Vec<String>,
    control: Vec<String>,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let mut ok = true;
    for kind in ["docker", "namespaces"] {
        match runtime.block_on(prove(kind)) {
            Ok(rows) => {
                rows.iter().for_each(Row::print);
                ok &= rows.iter().all(|row| row.ok);
            }
            Err(error) => {
                eprintln!("canary: {kind}: {error:#}");
                ok = false;
            }
        }
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn prove(kind: &'static str) -> anyhow::Result<Vec<Row>> {
    let host = Host::new()?;
    let search = bash(&host.search_command());
    let model = Model::start(Script {
        questioner: vec![questions(&[QUESTION])],
        answerers: [(
            QUESTION.to_owned(),
            vec![
                search.clone(),
                submit(json!({"answer": "", "citations": [], "gaps": ["Nothing of the host."]})),
            ],
        )]
        .into(),
        resolver: vec![
            search,
            submit(json!({"summary": "Nothing to do.", "used_answers": [], "leave_out": []})),
        ],
    })
    .await;
    let printed = host.solve(kind, &model.base_url()).await?;
    let mut searches = Vec::new();
    for who in [Who::Answerer(QUESTION.to_owned()), Who::Resolver] {
        searches.push(searched(&model.requests_of(&who)).with_context(|| format!("the search of {who:?}"))?);
    }
    let requests: Vec<String> =
        model.requests().into_iter().map(|(_, request)| request.to_string()).collect();
    let folder = host.in_run_folder()?;
    for place in searches.iter().flat_map(|search| &search.found).chain(&folder) {
        eprintln!("canary: {kind}: FOUND in {place}");
    }
    let sum = |of: fn(&Searched) -> u64| searches.iter().map(of).sum::<u64>() as f64;
    let row = |what: &str, value: f64, unit| Row::at_most(&format!("canary_{kind}_{what}"), value, unit, 0.0);
    let told = |what: &str, value: f64, unit| Row::told(&format!("canary_{kind}_{what}"), value, unit);
    let controls = searches.iter().map(|search| search.control.len()).sum::<usize>();
    let wanted = CONTROLS * searches.len();
    Ok(vec![
        row("inside", sum(|s| s.found.len() as u64), "places inside that hold it"),
        row("run_folder", folder.len() as f64, "files of the run that hold it"),
        row(
            "requests",
            requests.iter().filter(|text| host.is_in(text.as_bytes())).count() as f64,
            "requests to the model that hold it",
        ),
        row("printed", f64::from(u8::from(host.is_in(&printed))), "in what was printed"),
        Row {
            target: Some(format!(">= {wanted}")),
            ok: controls >= wanted,
            ..told("control", controls as f64, "planted controls found")
        },
        told("planted", host.planted() as f64, "places on the host that hold it"),
        told("searched_agents", searches.len() as f64, "agents that searched"),
        told("searched_files", sum(|s| s.files), "files"),
        told("searched_bytes", sum(|s| s.bytes), "bytes"),
        told("searched_git", sum(|s| s.git_objects_bytes), "bytes of git objects"),
        told("searched_processes", sum(|s| s.processes), "processes"),
        told("searched_requests", requests.len() as f64, "requests"),
        told("unreadable", sum(|s| s.unreadable), "files closed to the agent"),
    ])
}

/// What the search told the model.
fn searched(requests: &[Value]) -> anyhow::Result<Searched> {
    let text = all_text(requests.last().context("it never asked the model")?);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("SEARCHED "));
    let line = line.with_context(|| {
        format!("it did not come to its end: {}", &text[text.len().saturating_sub(2_000)..])
    })?;
    let searched: Searched = serde_json::from_str(line)?;
    ensure!(searched.files > 1_000, "it saw only {} files", searched.files);
    Ok(searched)
}
