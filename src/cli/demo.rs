//! `acquire demo`: a whole run offline. A small project with a real bug, an issue, and a model's replies that
//! were recorded in a real run; everything else (git, sandbox, checks, tests) happens here and now.

use std::{path::Path, process::ExitCode};

use anyhow::Context;

use crate::{
    config::{self, Environment, SandboxKind},
    domain::{Change, FileMode, RepoPath, RunId, TreeChanges},
    repo::create_repository,
    report::{self, Left},
    runs::{
        self, AnswererKind, IssueSource, KnowledgeKind, Replay, ReplaySource, Replies, Request, Start, Trial,
    },
    store::make_run_folder,
};

use super::{
    args,
    process::{self, UsageError},
    session::{self, Session, exit_code},
};

macro_rules! project {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../demo/project/", $path)))),*]
    };
}

/// The example project, file by file.
const PROJECT: &[(&str, &[u8])] = project![
    ".gitignore",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "src/error.rs",
    "src/format.rs",
    "src/lib.rs",
    "src/parse.rs",
    "src/units.rs",
    "tests/durations.rs",
];
const ISSUE: &str = include_str!("../../demo/issue.md");
/// What the issue asks for, as tests that no agent saw.
const ACCEPTANCE: &[u8] = include_bytes!("../../demo/acceptance.rs");
const REPLIES: &str = include_str!("../../demo/replies.jsonl");
const TEST_COMMAND: &str = "cargo test --offline --quiet 2>&1";

pub async fn run(demo: args::Demo) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process()?;
    // The demo must not depend on what an operator has set: it asks no model and no Docker.
    let mut settings = config::Settings::default();
    // The replies were recorded without it, and it would be the longest wait of all.
    settings.method.baseline_seconds = 0;
    let questions = settings.method.questions as usize;
    let mut session = Session::with(environment, settings, None)?;
    let folder = session.folder(demo.out);
    session.host.settings.paths.cache = folder.join("cache");
    lay_out(&folder).await?;
    let request = Request {
        repo: folder.join("repo").to_string_lossy().into_owned(),
        issue: Some(IssueSource::File(folder.join("issue.md"))),
        base: None,
        knowledge: KnowledgeKind::Qa,
        questions,
        asked: Vec::new(),
        answerer: AnswererKind::default(),
        patch: true,
        image: None,
        sandbox: SandboxKind::Namespaces,
    };
    let source = ReplaySource::Text { name: "the demo's recording", text: REPLIES };
    let replies = Replies { record: None, replay: Some(Replay { source, lenient: false }) };
    let start = Start::Fresh { request: request.clone(), folder: folder.clone() };
    let solved = match session.run(start, replies).await? {
        Ok(solved) => solved,
        Err(code) => return Ok(code),
    };
    if demo.json {
        session::print(&solved, &serde_json::to_string_pretty(&solved.summary)?)?;
        return Ok(exit_code(&solved));
    }
    let acceptance = TreeChanges {
        changed: vec![Change {
            path: b"tests/acceptance.rs".to_vec(),
            mode: FileMode::Regular,
            content: ACCEPTANCE.to_vec(),
        }],
        removed: Vec::new(),
    };
    let trials = match &solved.patch {
        Some(patch) => {
            let id = RunId::new(session.host.clock.now(), process::random()?.run_id);
            let trial = Trial { id, request, patch, beside: acceptance, command: TEST_COMMAND };
            runs::try_out(trial, &session.host).await?.to_vec()
        }
        None => Vec::new(),
    };
    let shown = report::demo(&report::DemoInput {
        summary: &solved.summary,
        knowledge: solved.knowledge.as_ref(),
        left: Left {
            folder: &solved.folder,
            files: &solved.files,
            priced: solved.priced,
            can_go_on: solved.can_go_on,
            config: None,
            max_usd: None,
        },
        recorded: report::recorded_with(REPLIES),
        comment: solved.comment.as_deref(),
        diff: solved.patch.as_ref().map(|patch| patch.diff.as_slice()),
        test_command: TEST_COMMAND,
        trials: &trials,
    });
    session::print(&solved, &shown)?;
    Ok(exit_code(&solved))
}

/// Puts the example repository and its issue below `folder`.
async fn lay_out(folder: &Path) -> anyhow::Result<()> {
    let repo = folder.join("repo");
    if repo.exists() {
        return Err(
            UsageError(format!("{} is there already; name another folder by --out", repo.display())).into()
        );
    }
    make_run_folder(folder)?;
    std::fs::create_dir(&repo).with_context(|| format!("{} cannot be made", repo.display()))?;
    let issue = folder.join("issue.md");
    std::fs::write(&issue, ISSUE).with_context(|| format!("{} cannot be written", issue.display()))?;
    let files = PROJECT
        .iter()
        .map(|(path, content)| Ok((RepoPath::parse(path)?, FileMode::Regular, content.to_vec())))
        .collect::<anyhow::Result<Vec<_>>>()?;
    create_repository(repo, files, "kettle 0.3.1\n".into()).await?;
    Ok(())
}
