//! `acquire solve`: a whole run without writes to GitHub.

use std::process::ExitCode;

use crate::{
    report::{self, Left},
    runs::{AnswererKind, Request, Start},
};

use super::{
    args, output,
    session::{self, Session, exit_code},
};

pub async fn run(solve: args::Solve) -> anyhow::Result<ExitCode> {
    let session = Session::start(solve.config, solve.max_usd, &solve.replies)?;
    let settings = &session.host.settings;
    let start = match solve.folder {
        args::Folder::Resume { folder, .. } => session.resume(folder, false).await?,
        args::Folder::New { out, task } => {
            let request = Request {
                repo: session.repo(task.repo),
                issue: Some(task.issue),
                base: task.base,
                knowledge: solve.knowledge,
                questions: solve.questions.unwrap_or(settings.method.questions) as usize,
                asked: Vec::new(),
                answerer: AnswererKind::default(),
                patch: solve.patch,
                image: solve.image,
                sandbox: solve.sandbox.unwrap_or(settings.sandbox.kind),
            };
            Start::Fresh { request, folder: session.folder(out) }
        }
    };
    let solved = match session.run(start, solve.replies).await? {
        Ok(solved) => solved,
        Err(code) => return Ok(code),
    };
    let left = Left {
        folder: &solved.folder,
        files: &solved.files,
        priced: solved.priced,
        can_go_on: solved.can_go_on,
        config: session.config.as_deref(),
        max_usd: session.max_usd,
    };
    let redact = &session.redact;
    let ending = redact(&report::ending(&solved.summary, solved.knowledge.as_ref(), left));
    if solve.json {
        let printed = session::print(&solved, &redact(&serde_json::to_string_pretty(&solved.summary)?));
        output::tell(ending);
        printed?;
    } else {
        session::print(&solved, &ending)?;
    }
    Ok(exit_code(&solved))
}
