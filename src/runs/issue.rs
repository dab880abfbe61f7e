//! Where the issue comes from: a file, or GitHub.

use std::{io::Read, path::Path};

use secrecy::SecretString;

use crate::{
    domain::{Issue, RepoId},
    github::{IssueError, IssueReader, IssueRef},
};

use super::StartError;

/// Largest issue file that is taken, in bytes. GitHub takes no body above 65,536 characters.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads an issue file: the first line is the title, with or without a Markdown heading's `#`.
pub fn from_file(path: &Path) -> Result<Issue, StartError> {
    let shown = path.display();
    let usage = |what: String| StartError::Usage(format!("the issue file {shown} {what}"));
    let file = std::fs::File::open(path)
        .map_err(|e| usage(format!("cannot be read: {e}. Give a text file to --issue-file")))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| usage(format!("cannot be read: {e}. Give a text file to --issue-file")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(usage("is larger than 1 MiB. Cut logs down to the lines that matter".into()));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        usage(format!("is not UTF-8 (at byte {at}). Save it as UTF-8"))
    })?;
    let text = text.trim_start_matches('\u{FEFF}').trim();
    if text.is_empty() {
        return Err(usage("is empty. Its first line is the title, the rest the body".into()));
    }
    let (title, body) = text.split_once('\n').unwrap_or((text, ""));
    Ok(Issue { number: None, title: title.trim_start_matches('#').trim().into(), body: body.trim().into() })
}

/// Reads an issue of a GitHub. `repo` is what a plain number refers to; `token` belongs to its host alone.
pub async fn from_github(
    reference: &str,
    repo: Option<&RepoId>,
    token: Option<SecretString>,
    api: Option<url::Url>,
) -> Result<Issue, StartError> {
    let reference = IssueRef::parse(reference).map_err(|e| StartError::Usage(e.to_string()))?;
    let (repo, number) = match (reference, repo) {
        (IssueRef::Url { repo, number }, _) => (repo, number),
        (IssueRef::Number(number), Some(repo)) => (repo.clone(), number),
        (IssueRef::Number(number), None) => {
            return Err(StartError::Usage(format!(
                "issue {number} of which repository? This one has no `origin` on a GitHub; \
                 give the issue's URL, or its text with --issue-file"
            )));
        }
    };
    let mut reader = IssueReader::new().map_err(start_error)?;
    if let Some(api) = api {
        reader = reader.with_api(api);
    }
    if let Some(token) = token {
        reader = reader.with_token(&repo.web, token);
    }
    reader.read(&repo, number).await.map_err(start_error)
}

fn start_error(error: IssueError) -> StartError {
    match error {
        IssueError::Input(_) => StartError::Usage(error.to_string()),
        IssueError::Authentication(_) | IssueError::RateLimited(_) | IssueError::Unavailable(_) => {
            StartError::Failed(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8]) -> Result<Issue, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issue.md");
        std::fs::write(&path, content).unwrap();
        from_file(&path).map_err(|e| e.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn the_first_line_is_the_title() {
        let issue = read("\u{FEFF}# It fails\n\nWhen I call it.\n".as_bytes()).unwrap();
        assert_eq!((issue.title.as_str(), issue.body.as_str()), ("It fails", "When I call it."));
        assert_eq!(read(b"Only a title").unwrap().body, "");
    }

    #[test]
    fn files_that_are_no_issue_are_told() {
        insta::assert_snapshot!(read(b" \n").unwrap_err(), @"the issue file FILE is empty. Its first line is the title, the rest the body");
        insta::assert_snapshot!(read(b"caf\xe9").unwrap_err(), @"the issue file FILE is not UTF-8 (at byte 3). Save it as UTF-8");
        insta::assert_snapshot!(read(&vec![b'a'; 5 << 20]).unwrap_err(), @"the issue file FILE is larger than 1 MiB. Cut logs down to the lines that matter");
        let error = from_file(Path::new("nowhere/issue.md")).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"the issue file nowhere/issue.md cannot be read: No such file or directory (os error 2). Give a text file to --issue-file");
    }
}
