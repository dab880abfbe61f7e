//! Where the issue comes from: a file, or GitHub.

use std::{fs::File, io::Read, path::Path};

use secrecy::SecretString;

use crate::{
    domain::{Issue, RepoId},
    gate::intake::{AdmittedIssue, IntakeError, IntakeLimits, admit_issue, issue_from_file},
    github::{IssueError, IssueReader, IssueRef},
    store::open_regular,
};

use super::StartError;

/// Reads an issue file that can be worked on; `gate` says what one may be.
pub fn from_file(path: &Path) -> Result<Issue, StartError> {
    let limits = IntakeLimits::default();
    let told = |what: String, class| StartError::Usage { class, text: format!("{}: {what}", path.display()) };
    let unreadable = |e: std::io::Error| {
        told(
            format!("the issue file cannot be read: {e}. Give a text file to --issue-file"),
            "issue_unreadable",
        )
    };
    let refused = |e: IntakeError| told(e.to_string(), e.class());
    let file = open_regular(path, File::options().read(true)).map_err(unreadable)?;
    let (size, limit) = (file.metadata().map_err(unreadable)?.len(), limits.file_bytes);
    if size > limit as u64 {
        return Err(refused(IntakeError::FileTooLarge {
            bytes: size.try_into().unwrap_or(usize::MAX),
            limit,
        }));
    }
    // Files grow.
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let issue = issue_from_file(&bytes, &limits).map_err(refused)?;
    admit_issue(&issue, &limits).map_err(refused)?;
    Ok(issue)
}

/// An issue as models may read it; nothing where a run has none.
pub fn admitted(issue: &Issue) -> Result<AdmittedIssue, StartError> {
    if issue.is_none() {
        return Ok(AdmittedIssue::default());
    }
    admit_issue(issue, &IntakeLimits::default()).map_err(|e| StartError::usage(e.class(), e))
}

/// Reads an issue of a GitHub that can be worked on. `repo` is what a plain number refers to; `token` belongs to its host alone.
pub async fn from_github(
    reference: &str,
    repo: Option<&RepoId>,
    token: Option<(String, SecretString)>,
    api: Option<url::Url>,
) -> Result<Issue, StartError> {
    let reference = IssueRef::parse(reference).map_err(|e| StartError::usage("issue_reference", e))?;
    let (repo, number) = match (reference, repo) {
        (IssueRef::Url { repo, number }, _) => (repo, number),
        (IssueRef::Number(number), Some(repo)) => (repo.clone(), number),
        (IssueRef::Number(number), None) => {
            let text = format!(
                "issue {number} of which repository? This one has no `origin` on github.com; \
                 give the issue's URL, or its text with --issue-file"
            );
            return Err(StartError::usage("issue_reference", text));
        }
    };
    let mut reader = IssueReader::new().map_err(start_error)?;
    if let Some(api) = api {
        reader = reader.with_api(api);
    }
    if let Some((web, token)) = token {
        reader = reader.with_token(&web, token);
    }
    let issue = reader.read(&repo, number).await.map_err(start_error)?;
    admit_issue(&issue, &IntakeLimits::default())
        .map_err(|e| StartError::Usage { class: e.class(), text: format!("{repo}/issues/{number}: {e}") })?;
    Ok(issue)
}

fn start_error(error: IssueError) -> StartError {
    let text = error.to_string();
    match error {
        IssueError::Input(_) => StartError::Usage { class: "issue_reference", text },
        IssueError::Authentication(_) => StartError::Failed { class: "github_authentication", text },
        IssueError::RateLimited(_) => StartError::Failed { class: "github_rate_limit", text },
        IssueError::Unavailable(_) => StartError::Failed { class: "github_unavailable", text },
    }
}
