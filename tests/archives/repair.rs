//! A whole run on a release with a bug that its next release repaired: blinker 1.8.0 takes a sender that is a
//! string or a number for the object that it happens to be, so that an equal one is not heard (1.8.1: "Restore
//! identity handling for `str` and `int` senders").

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    released,
    script::{Model, Script, Who, all_text, bash, questions, submit},
};

const QUESTION: &str = "How does blinker tell whether two senders are the same?";

/// What the issue is about, in a form that fails before the repair and passes after it.
const CHECK: &str = r#"
import sys
sys.path.insert(0, "src")
import blinker
heard = []
def receiver(sender):
    heard.append(sender)
signal = blinker.Signal()
one, other = "".join(["na", "me"]), "".join(["n", "ame"])
signal.connect(receiver, sender=one)
signal.send(other)
print("heard:", heard)
sys.exit(0 if heard == ["name"] else 1)
"#;

fn script() -> Script {
    let check = format!("python3 - <<'END'{CHECK}END");
    let edit = r#"python3 - <<'END'
path = "src/blinker/_utilities.py"
text = open(path).read()
old = "    return id(obj)\n"
assert text.count(old) == 1
new = "    if isinstance(obj, (str, int)):\n        # Equal ones are the same, whatever their addresses.\n        return obj\n\n" + old
open(path, "w").write(text.replace(old, new))
END"#;
    Script {
        questioner: vec![questions(&[QUESTION])],
        answerers: [(
            QUESTION.to_owned(),
            vec![
                bash("cat -n src/blinker/_utilities.py && grep -n 'make_id' -r src"),
                submit(json!({
                    "answer": "`make_id` takes the address of everything but bound methods [1]. \
                               `Signal.connect` files receivers under it [2].",
                    "citations": [
                        {"path": "src/blinker/_utilities.py", "start": 41, "end": 45, "quote": "return id(obj.__func__), id(obj.__self__)\n\n    return id(obj)"},
                        {"path": "src/blinker/base.py", "start": 1, "end": 3, "quote": "sender_id = ANY_ID\n        else:\n            sender_id = make_id(sender)"},
                        {"path": "src/blinker/base.py", "start": 1, "end": 9, "quote": "sender_id = make_identity(sender)"},
                    ],
                    "gaps": [],
                })),
            ],
        )]
        .into(),
        resolver: vec![
            bash(&check),
            bash(edit),
            bash(&check),
            submit(json!({"summary": "Equal strings and numbers are one sender.", "used_answers": ["q1"], "leave_out": []})),
        ],
    }
}

#[tokio::test]
async fn a_run_repairs_a_released_package_with_a_patch_that_applies() {
    let release = released("pypi", "blinker", "1.8.0");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("issue.md"), "# An equal sender is not heard\n\nA receiver that is connected to a string hears only that very object.\n").unwrap();
    let model = Model::start(script()).await;
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_acquire"))
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder.path())
        .env("ACQUIRE_PATHS__CACHE", at("cache"))
        .env("ACQUIRE_MODEL__BASE_URL", model.base_url())
        .env("ACQUIRE_MODEL__NAME", "scripted")
        .args(["solve", "--json", "--questions", "1", "--issue-file", "issue.md", "--out", "out", "--repo"])
        .arg(&release)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["outcome"], "patch");
    assert_eq!(run["patch"]["files"], json!(["src/blinker/_utilities.py"]));
    assert_eq!((&run["patch"]["insertions"], &run["patch"]["deletions"]), (&json!(4), &json!(0)));

    let knowledge: Value =
        serde_json::from_str(&std::fs::read_to_string(at("out/knowledge.json")).unwrap()).unwrap();
    let citations = knowledge["pairs"][0]["answer"]["citations"].as_array().unwrap();
    let checks: Vec<&Value> = citations.iter().map(|citation| &citation["check"]).collect();
    assert_eq!(checks, ["verified", "moved", "unverified"], "{citations:#?}");
    let moved = &citations[1];
    let base = std::fs::read_to_string(release.join("src/blinker/base.py")).unwrap();
    let lines: Vec<&str> = base.lines().collect();
    let (start, end) = (moved["start"].as_u64().unwrap() as usize, moved["end"].as_u64().unwrap() as usize);
    let shown: Vec<&str> = lines[start - 1..end].iter().map(|line| line.trim()).collect();
    assert_eq!(shown, ["sender_id = ANY_ID", "else:", "sender_id = make_id(sender)"]);

    // The tests inside saw it fail and pass; so it does outside, on a clone with the patch.
    let resolver = model.requests_of(&Who::Resolver);
    let seen = all_text(resolver.last().unwrap());
    assert!(seen.contains("heard: []") && seen.contains("heard: ['name']"), "{seen}");
    let clone = at("clone");
    git(folder.path(), &["clone", "--quiet", release.to_str().unwrap(), "clone"]);
    assert!(!check(&clone));
    git(&clone, &["apply", "--index", "../out/patch.diff"]);
    assert!(check(&clone));
}

fn check(repository: &Path) -> bool {
    Command::new("python3").arg("-c").arg(CHECK).current_dir(repository).output().unwrap().status.success()
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    let output =
        git.args(arguments).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
