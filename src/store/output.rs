//! The files that a run hands over.

use serde::Serialize;

use crate::{domain::Knowledge, method::ports::StoreError};

use super::{RunFolder, RunSummary, atomic, file_error, redact};

const RUN_JSON: &str = "run.json";
/// All results, in the order written.
const NAMES: [&str; 6] =
    ["knowledge.json", "comment.md", "pull-request.md", "patch.diff", "patch.partial.diff", RUN_JSON];

/// What a run came to. What is `None` has no file; one that an earlier attempt left is removed.
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    pub run: &'a RunSummary,
    pub knowledge: Option<&'a Knowledge>,
    /// Markdown of the comment on the issue.
    pub comment: Option<&'a str>,
    /// The pull request, or why there is none: its title, an empty line, then markdown.
    pub pull_request: Option<&'a str>,
    /// Has passed the gate: a diff with a secret in it never comes here, and it is written as it is.
    pub diff: Option<&'a [u8]>,
    /// Unfinished work of a Resolver that a limit ended; the same holds for it.
    pub partial_diff: Option<&'a [u8]>,
}

/// Writes all files of `results`, each atomically, `run.json` last: where it stands, the others do too. Returns
/// the names of what was written.
pub fn write_results(folder: &RunFolder, results: &Results) -> Result<Vec<&'static str>, StoreError> {
    let redacted = |text: &str| (folder.redact())(text).into_bytes();
    let knowledge = results.knowledge.map(|it| json(folder, "knowledge.json", it)).transpose()?;
    let files = [
        ("knowledge.json", knowledge),
        ("comment.md", results.comment.map(redacted)),
        ("pull-request.md", results.pull_request.map(redacted)),
        ("patch.diff", results.diff.map(<[u8]>::to_vec)),
        ("patch.partial.diff", results.partial_diff.map(<[u8]>::to_vec)),
        (RUN_JSON, Some(json(folder, RUN_JSON, results.run)?)),
    ];
    let mut written = Vec::new();
    for (name, content) in files {
        let path = folder.path().join(name);
        match content {
            Some(content) => {
                atomic::write(&path, &content)?;
                written.push(name);
            }
            None => atomic::remove(&path)?,
        }
    }
    Ok(written)
}

/// Writes `run.json` alone, for a process that adds nothing to the other results. Returns the names of all results
/// that are there.
pub fn write_summary(folder: &RunFolder, run: &RunSummary) -> Result<Vec<&'static str>, StoreError> {
    atomic::write(&folder.path().join(RUN_JSON), &json(folder, RUN_JSON, run)?)?;
    Ok(NAMES.into_iter().filter(|name| folder.path().join(name).is_file()).collect())
}

/// Pretty-printed, for people look at it too.
fn json(folder: &RunFolder, name: &str, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let text = serde_json::to_value(value)
        .and_then(|value| serde_json::to_vec_pretty(&redact::value(&value, folder.redact())));
    let mut text =
        text.map_err(|error| file_error(&folder.path().join(name), format!("cannot be encoded: {error}")))?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use super::*;
    use crate::{domain::CommitId, store::run_json};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_second_attempt_leaves_nothing_of_the_first() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(temporary.path(), Arc::new(str::to_owned)).unwrap();
        let run = run_json::tests::full();
        let knowledge = Knowledge::empty(CommitId::parse(&run.base).unwrap());
        let full = Results {
            run: &run,
            knowledge: Some(&knowledge),
            comment: Some("c"),
            pull_request: Some("p"),
            diff: Some(b"\xff"),
            partial_diff: None,
        };
        write_results(&folder, &full).unwrap();
        assert_eq!(
            names(temporary.path()),
            ["comment.md", "knowledge.json", "patch.diff", "pull-request.md", "run.json", "run.lock"]
        );
        assert_eq!(fs::read(temporary.path().join("patch.diff")).unwrap(), b"\xff");
        let written = fs::read(temporary.path().join("run.json")).unwrap();
        assert_eq!(serde_json::from_slice::<RunSummary>(&written).unwrap(), run);

        let mut failed = run.clone();
        failed.version = "0.2.0".into();
        let there = write_summary(&folder, &failed).unwrap();
        assert_eq!(there, ["knowledge.json", "comment.md", "pull-request.md", "patch.diff", "run.json"]);
        assert_eq!(RunSummary::of_folder(temporary.path()), Some(failed));

        let fewer = Results { pull_request: None, diff: None, partial_diff: Some(b"p"), ..full };
        let written = write_results(&folder, &fewer).unwrap();
        assert_eq!(written, ["knowledge.json", "comment.md", "patch.partial.diff", "run.json"]);
        assert_eq!(
            names(temporary.path()),
            ["comment.md", "knowledge.json", "patch.partial.diff", "run.json", "run.lock"]
        );
    }

    #[test]
    fn s_33_no_secret_reaches_a_result() {
        let temporary = tempfile::tempdir().unwrap();
        let redact = Arc::new(|text: &str| text.replace("hunter2", "***"));
        let folder = RunFolder::create(temporary.path(), redact).unwrap();
        let mut run = run_json::tests::full();
        run.issue.title = "hunter2".into();
        let commit = CommitId::parse(&run.base).unwrap();
        let mut knowledge = Knowledge::empty(commit);
        knowledge.blocks.push(crate::domain::Block {
            kind: "proposal".into(),
            text: "hunter2".into(),
            citations: vec![],
            status: Default::default(),
            gaps: vec![],
        });
        let results = Results {
            run: &run,
            knowledge: Some(&knowledge),
            comment: Some("hunter2"),
            pull_request: Some("hunter2"),
            diff: None,
            partial_diff: None,
        };
        write_results(&folder, &results).unwrap();
        for name in ["run.json", "knowledge.json", "comment.md", "pull-request.md"] {
            let text = fs::read_to_string(temporary.path().join(name)).unwrap();
            assert!(!text.contains("hunter2") && text.contains("***"), "{name}: {text}");
        }
    }
}
