//! The checker of `scripts/prove evidence`: reads claims, checks them as a run does, tells the verdicts.
//!
//! With repositories as arguments it starts `prove.py`, which makes the claims, calls this program again
//! without arguments for the verdicts (JSON lines in, JSON lines out, matched by `id`), and has them judged by
//! `oracle.py`, which shares no code with what is checked here.

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{BufRead, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
    time::Instant,
};

use acquire::{
    domain::Check,
    index::SourceSymbols,
    method::{
        evidence::{self, Claim, Fault},
        ports::SourceTree,
        prose,
    },
    repo::{Mirror, Settings, Source},
};
use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Something to check against the HEAD commit of a repository.
#[derive(Deserialize)]
struct Question {
    id: u64,
    repo: PathBuf,
    #[serde(flatten)]
    what: What,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Claim(Claim),
    /// Text whose names are looked up.
    Prose(String),
}

#[derive(Serialize)]
struct Verdict {
    id: u64,
    /// Of the check alone, without reading the question.
    seconds: f64,
    #[serde(flatten)]
    found: Found,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Claim {
        check: Check,
        path: String,
        start: u32,
        end: u32,
        quote: Option<String>,
        symbol: Option<String>,
        fault: Option<Fault>,
    },
    Prose {
        missing: Vec<String>,
    },
}

/// The Python that runs `prove.py`; set by `scripts/prove`.
const PYTHON: &str = "PROVE_PYTHON";

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let repositories: Vec<_> = std::env::args_os().skip(1).filter(|argument| argument != "--bench").collect();
    if !repositories.is_empty() {
        return prove(&repositories);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    match runtime.block_on(answer_all()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evidence: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn prove(repositories: &[OsString]) -> ExitCode {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/evidence/prove.py");
    let this = std::env::current_exe().expect("the system knows its running programs");
    match Command::new(&python).arg(script).arg(this).args(repositories).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("evidence: {} does not start: {error}", python.display());
            ExitCode::FAILURE
        }
    }
}

async fn answer_all() -> anyhow::Result<()> {
    let mirrors = tempfile::tempdir()?;
    let mut trees: HashMap<PathBuf, Arc<dyn SourceTree>> = HashMap::new();
    let mut out = std::io::BufWriter::new(std::io::stdout());
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?).context("a question")?;
        let tree = match trees.get(&question.repo) {
            Some(tree) => tree.clone(),
            None => {
                let settings = Settings::new(mirrors.path().to_owned());
                let mirror = Mirror::open(Source::Folder(question.repo.clone()), settings).await?;
                let tree: Arc<dyn SourceTree> = Arc::new(mirror.at(None).await?);
                trees.insert(question.repo, tree.clone());
                tree
            }
        };
        let started = Instant::now();
        let found = match question.what {
            What::Claim(claim) => {
                let checked = evidence::check(claim, &*tree, &SourceSymbols).await?;
                let citation = checked.citation;
                Found::Claim {
                    check: citation.check,
                    path: citation.path,
                    start: citation.start,
                    end: citation.end,
                    quote: citation.quote,
                    symbol: citation.symbol,
                    fault: checked.fault,
                }
            }
            What::Prose(text) => Found::Prose { missing: prose::missing(&text, "", tree).await? },
        };
        let verdict = Verdict { id: question.id, seconds: started.elapsed().as_secs_f64(), found };
        serde_json::to_writer(&mut out, &verdict)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}
