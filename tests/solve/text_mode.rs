//! A run with a model that has no tool calls: it writes them into its text.

use serde_json::json;

use crate::{
    project::{Project, assert_exit},
    script::{Model, Script, Who, questions, text},
    story::Q1,
};

fn script() -> Script {
    let submit = |arguments: serde_json::Value| text(&format!("```submit\n{arguments}\n```"));
    Script {
        questioner: vec![questions(&[Q1])],
        answerers: [(
            Q1.to_owned(),
            vec![
                text("I look.\n\n```bash\ncat store.py\n```"),
                submit(json!({
                    "answer": "`total` reads `item['price']` without a default [1].",
                    "citations": [{"path": "store.py", "start": 17, "end": 18, "quote": "return sum(item['price'] for item in items)"}],
                    "gaps": [],
                })),
            ],
        )]
        .into(),
        resolver: vec![
            text("```bash\nls\n```\nand then\n```bash\npwd\n```"),
            text("I am done."),
            text("````bash\ncat >> README.md <<'END'\n```py\ntotal([{}])\n```\nEND\nsed -i \"s/item\\['price'\\]/item.get('price', 0)/\" store.py\n````"),
            submit(json!({"summary": "`total` takes 0 where an item has no price.", "used_answers": ["q1"], "leave_out": []})),
        ],
    }
}

#[tokio::test]
async fn a_model_without_tool_calls_answers_and_repairs() {
    let project = Project::new();
    let model = Model::start(script()).await;
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_MODEL__TOOLS", "text").env("ACQUIRE_METHOD__QUESTIONS", "1");
    let output = command.output().await.unwrap();
    assert_exit(&output, 0);

    let run = project.run_json();
    assert_eq!(
        (&run["outcome"], &run["patch"]["files"]),
        (&json!("patch"), &json!(["README.md", "store.py"]))
    );
    let patch = project.read("patch.diff");
    assert!(patch.contains("+```py\n+total([{}])\n+```\n"), "{patch}");
    let knowledge = project.knowledge();
    assert_eq!(knowledge["pairs"][0]["answer"]["citations"][0]["check"], "verified");

    let requests = model.requests_of(&Who::Resolver);
    for (earlier, later) in requests.iter().zip(&requests[1..]) {
        let messages = |request: &serde_json::Value| request["messages"].as_array().cloned().unwrap();
        assert!(later.get("tools").is_none());
        assert_eq!(messages(earlier), messages(later)[..messages(earlier).len()]);
    }
    let told: Vec<&str> = requests[3]["messages"].as_array().unwrap()[2..]
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert!(
        told[0].starts_with("Format error: your reply could not be read as one call: there are other"),
        "{told:?}"
    );
    assert!(told[1].starts_with("Format error: your reply called no tool."), "{told:?}");
    assert!(told[2].starts_with("Result of `bash`:\n"), "{told:?}");
}
