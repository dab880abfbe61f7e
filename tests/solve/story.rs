//! From an issue to checked knowledge and a patch.

use serde_json::json;

use crate::{
    project::{Project, assert_exit},
    script::{Model, Script, Who, all_text, bash, bashes, questions, submit},
};

pub const Q1: &str = "How does `total` read the price of an item?";
pub const Q2: &str = "Which functions of `Store` write to the file?";

pub fn script() -> Script {
    Script {
        questioner: vec![questions(&[Q1, Q2])],
        answerers: [
            (
                Q1.to_owned(),
                vec![
                    bash("cat store.py"),
                    submit(json!({
                        "answer": "`total` reads `item['price']` without a default [1].",
                        "citations": [{"path": "store.py", "start": 17, "end": 18, "quote": "return sum(item['price'] for item in items)"}],
                        "gaps": [],
                    })),
                ],
            ),
            (
                Q2.to_owned(),
                vec![
                    bashes(&["grep -n def store.py", "touch store.py"]),
                    submit(json!({
                        "answer": "`Store.save` writes the file [1].",
                        "citations": [{"path": "store.py", "start": 1, "end": 2, "quote": "json.dump(items, file)"}],
                        "gaps": ["Whether others write it: looked with grep, found nothing."],
                    })),
                ],
            ),
        ]
        .into(),
        resolver: vec![
            bash("sed -i \"s/item\\['price'\\]/item.get('price', 0)/\" store.py && touch debug.log && git diff --stat"),
            submit(json!({"summary": "`total` takes 0 where an item has no price.", "used_answers": ["q1", "q7"], "leave_out": []})),
        ],
    }
}

#[tokio::test]
async fn a_run_ends_with_checked_knowledge_and_a_patch() {
    let project = Project::new();
    let model = Model::start(script()).await;
    let output = project.acquire(&model).output().await.unwrap();
    assert_exit(&output, 0);

    let run = project.run_json();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap(), run);
    assert_eq!(run["outcome"], "patch");
    assert_eq!(run["patch"]["files"], json!(["store.py"]));
    assert_eq!((&run["patch"]["insertions"], &run["patch"]["deletions"]), (&json!(1), &json!(1)));
    let stages: Vec<&str> =
        run["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(stages, ["prepare", "question", "answer", "resolve"]);
    assert_eq!(run["stages"][2]["agents"][1]["steps"], 2);
    assert_eq!(run["stages"][3]["agents"][0]["exit"], "submitted");

    let knowledge = project.knowledge();
    let checks: Vec<&str> = knowledge["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["answer"]["citations"][0]["check"].as_str().unwrap())
        .collect();
    assert_eq!(checks, ["verified", "moved"]);
    assert_eq!(knowledge["pairs"][1]["answer"]["citations"][0]["start"], 14);

    let diff = project.read("patch.diff");
    std::fs::write(project.path("patch.diff"), &diff).unwrap();
    project.git(&["apply", "--check", "../patch.diff"]);
    assert!(diff.contains("+    return sum(item.get('price', 0) for item in items)"), "{diff}");

    let resolver = model.requests_of(&Who::Resolver);
    assert!(all_text(&resolver[0]).contains("`Store.save` writes the file [1]."));
    assert!(
        all_text(&resolver[1]).contains("1 file changed"),
        "git works inside: {}",
        all_text(&resolver[1])
    );
    let answerer = model.requests_of(&Who::Answerer(Q2.into()));
    assert!(all_text(&answerer[1]).contains("Read-only file system"), "{}", all_text(&answerer[1]));
}

#[tokio::test]
async fn each_answerer_sees_the_issue_its_question_and_run_wide_facts_only() {
    let project = Project::new();
    let model = Model::start(script()).await;
    assert_exit(&project.acquire(&model).arg("--no-patch").output().await.unwrap(), 0);
    assert_eq!(project.run_json()["outcome"], "knowledge_only");

    let first = |q: &str| model.requests_of(&Who::Answerer(q.into()))[0].clone();
    let (one, two) = (first(Q1), first(Q2));
    assert_eq!(one["messages"].as_array().unwrap().len(), 2);
    assert!(all_text(&one).contains("`total([{}])` raises KeyError."));
    // But for the question, the two are the same to the letter: nothing of a sibling can be in them.
    assert_eq!(all_text(&one).replace(Q1, "Q"), all_text(&two).replace(Q2, "Q"));
    for (own, other) in [(Q1, Q2), (Q2, Q1)] {
        for request in model.requests_of(&Who::Answerer(own.into())) {
            assert!(!all_text(&request).contains(other));
        }
    }
}
