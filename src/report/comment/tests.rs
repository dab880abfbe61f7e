use super::*;
use crate::{
    domain::{Answer, Category, Check, Citation},
    report::fixtures::{account, citation, commit, issue, knowledge, pair, question, run_id},
};

/// The comment of a run on GitHub, with one model for all roles.
fn written(knowledge: &Knowledge) -> String {
    let models =
        ["answerer", "questioner", "resolver"].map(|role| (role.to_owned(), "gpt-5-mini".to_owned()));
    comment(&CommentInput {
        knowledge,
        issue: &issue(),
        repo: "https://github.com/example/kettle",
        run_id: &run_id(),
        version: "0.1.0",
        models: &models,
        account: account(),
        priced: true,
        notes: &["the sandbox is docker".to_owned()],
    })
}

#[test]
fn an_ordinary_run_reads_well() {
    insta::assert_snapshot!(written(&knowledge()));
}
