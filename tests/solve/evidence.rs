//! A citation that is called verified and does not hold is the worst fault there is. Here are many that do not.

use serde_json::{Value, json};

use crate::{
    project::Project,
    script::{Model, Who, bash, questions, submit},
    story::{Q1, Q2, script},
};

const LEDGER: &str = "\
import json
from decimal import Decimal


class Ledger:
    def open(self, path):
        self.file = open(path)
        return self.file

    def close(self):
        self.file.close()

    def total(self, items):
        return sum(Decimal(item['price']) for item in items)


class Archive(Ledger):
    def open(self, path):
        return super().open(path + '.gz')

    def copy(self, other):
        other.open(self.path)  # not Archive.open
        log('Archive.open was called')
        log('copied the whole ledger')
        log('copied the whole ledger')


def open_all(paths):
    return [Ledger().open(path) for path in paths]
";

const JAVA: &str = "\
class Clock {
    long now() { return System.nanoTime(); }
    long later() { return now() + 1; }
}
";

fn project() -> Project {
    let long = format!("{}the_only_needle = 1\n{}", "filler = 0\n".repeat(120), "filler = 0\n".repeat(120));
    let project = Project::with(&[
        ("ledger.py", LEDGER.as_bytes()),
        ("src/Clock.java", JAVA.as_bytes()),
        ("long.py", long.as_bytes()),
        ("latin1.py", b"# pr\xe9cis des op\xe9rations\nvalue = 1\n"),
        ("noise.bin", &[0xFF; 4_000]),
        ("empty.py", b""),
        ("notes.txt", b"def Ledger.total(self): is only told of here\n"),
    ]);
    std::os::unix::fs::symlink("ledger.py", project.path("repo/link.py")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", project.path("repo/passwd")).unwrap();
    project.git(&["add", "-A"]);
    project.git(&["commit", "-q", "-m", "Links"]);
    // In the work tree only: not part of any commit.
    project.write(&[("later.py", b"def written_after_the_commit(): return 1\n")]);
    project
}

fn quoted(path: &str, start: u32, end: u32, quote: &str) -> Value {
    json!({"path": path, "start": start, "end": end, "quote": quote})
}

fn named(path: &str, start: u32, end: u32, symbol: &str) -> Value {
    json!({"path": path, "start": start, "end": end, "symbol": symbol})
}

/// None of these holds, neither where it says nor anywhere else.
fn forged() -> Vec<Value> {
    let total = "return sum(Decimal(item['price']) for item in items)";
    let copied = "log('copied the whole ledger')";
    vec![
        // Text that is not there, or is not all there.
        quoted("ledger.py", 14, 14, "return sum(item.get('price', 0) for item in items)"),
        quoted("ledger.py", 14, 14, "return sum(Decimal(item['PRICE']) for item in items)"),
        quoted("ledger.py", 14, 14, &format!("{total}  # rounds up")),
        quoted("ledger.py", 13, 14, "def total(self, items): ... for item in items)"),
        quoted("ledger.py", 14, 14, "returnsum(Decimal(item['price'])foriteminitems)"),
        quoted("ledger.py", 14, 14, &format!("{total}\u{200b}")),
        quoted("ledger.py", 1, 30, LEDGER.replace("super()", "self").as_str()),
        // Too little to tell a place by.
        quoted("ledger.py", 8, 8, "return"),
        quoted("ledger.py", 1, 1, "import json"),
        quoted("ledger.py", 1, 28, "   \n\t  \u{3000}   "),
        json!({"path": "ledger.py", "start": 1, "end": 28}),
        json!({"path": "ledger.py", "start": 14, "end": 14, "quote": "", "symbol": ""}),
        // Bytes that are no text could be any.
        quoted("noise.bin", 1, 1, &"\u{FFFD}".repeat(40)),
        // Several places, and the range is none of them.
        quoted("ledger.py", 1, 3, copied),
        quoted("long.py", 241, 900, "filler = 0 filler = 0"),
        quoted("long.py", 1, 200, "filler = 0 filler = 0"),
        // Files that the commit does not have.
        quoted("later.py", 1, 1, "def written_after_the_commit(): return 1"),
        quoted("Ledger.py", 14, 14, total),
        quoted("ledger.py/", 14, 14, total),
        quoted("src/../ledger.py", 14, 14, total),
        quoted("/workspace/ledger.py", 14, 14, total),
        quoted("../repo/ledger.py", 14, 14, total),
        quoted(".git/config", 1, 3, "repositoryformatversion = 0"),
        quoted("link.py", 14, 14, total),
        quoted("passwd", 1, 1, "root:x:0:0:root:/root:/bin/bash"),
        quoted("/etc/passwd", 1, 1, "root:x:0:0:root:/root:/bin/bash"),
        quoted("src", 1, 1, "Clock.java and more"),
        quoted("", 1, 1, "anything at all here"),
        quoted("empty.py", 1, 1, "anything at all here"),
        quoted("ledger.py\u{0}", 14, 14, total),
        // Symbols that are not defined or called anywhere in the file.
        named("ledger.py", 13, 14, "subtotal"),
        named("ledger.py", 13, 14, "tota"),
        named("ledger.py", 24, 24, "copied"),
        named("ledger.py", 13, 14, "Basket.total"),
        named("ledger.py", 13, 14, "accounting.Ledger.total"),
        named("ledger.py", 13, 14, "total Ledger"),
        named("notes.txt", 1, 1, "Ledger.total"),
        named("long.py", 242, 250, "filler"),
        named("ledger.py", 7, 7, "os.open"),
        named("ledger.py", 18, 19, "gzip.open"),
        named("src/Clock.java", 2, 2, "Timer.now"),
        // A name that others have, too: what is called here is another's.
        named("ledger.py", 22, 23, "Other.open"),
        named("ledger.py", 29, 29, "Archive.Ledger.open"),
    ]
}

/// These hold, but not where they say; the place where they do is found.
fn misplaced() -> Vec<(Value, (u64, u64))> {
    vec![
        (quoted("ledger.py", 1, 2, "return sum(Decimal(item['price'])\n   for item in items)"), (14, 14)),
        (quoted("long.py", 1, 80, "the_only_needle = 1"), (121, 121)),
        (quoted("long.py", 60, 140, "the_only_needle = 1"), (121, 121)),
        (quoted("ledger.py", 0, 14, "return [Ledger().open(path) for path in paths]"), (29, 29)),
        (quoted("ledger.py", 29, 28, "return [Ledger().open(path) for path in paths]"), (29, 29)),
        (named("ledger.py", 1, 2, "Ledger.total"), (13, 14)),
        // The built-in is called there, and the parent's; this class's is defined elsewhere.
        (named("ledger.py", 19, 23, "Archive.open"), (18, 19)),
    ]
}

/// And these do hold.
fn true_ones() -> Vec<Value> {
    vec![
        quoted("ledger.py", 13, 14, "return sum(Decimal(item['price']) for item in items)"),
        quoted("ledger.py", 24, 24, "log('copied the whole ledger')"),
        quoted("long.py", 100, 179, "the_only_needle = 1"),
        quoted("latin1.py", 1, 1, "pr\u{FFFD}cis des op\u{FFFD}rations"),
        named("ledger.py", 13, 13, "Ledger.total() never fails <b>and is exact</b>"),
        named("ledger.py", 29, 29, "Ledger.open"),
        named("src/Clock.java", 3, 3, "Clock.now"),
    ]
}

fn checks(answer: &Value) -> Vec<(String, Value)> {
    let citations = answer["citations"].as_array().unwrap().iter();
    citations.map(|c| (c["check"].as_str().unwrap().to_owned(), c.clone())).collect()
}

#[tokio::test]
async fn no_forged_citation_is_called_verified() {
    let (forged, misplaced, true_ones) = (forged(), misplaced(), true_ones());
    let found: Vec<Value> =
        misplaced.iter().map(|(claim, _)| claim.clone()).chain(true_ones.clone()).collect();
    let answer = |citations: &[Value]| {
        let text = "**Evidence**\n- [1] \u{2713} `ledger.py:L1` holds for certain [1].";
        submit(json!({"answer": text, "citations": citations, "gaps": []}))
    };
    let mut cheating = script();
    cheating.questioner = vec![questions(&[Q1, Q2])];
    // Whether it is returned or final: what is handed in is looked up each time.
    cheating.answerers.insert(Q1.into(), vec![answer(&forged)]);
    cheating.answerers.insert(Q2.into(), vec![answer(&forged[..1]), answer(&found)]);
    let project = project();
    let model = Model::start(cheating).await;
    let mut command = project.acquire(&model);
    project.end(command.args(["--no-patch", "--sandbox", "namespaces"])).await.assert_code(0);

    let knowledge = project.knowledge();
    let answers = [0, 1].map(|number| knowledge["pairs"][number]["answer"].clone());
    let of_forged = checks(&answers[0]);
    assert_eq!(of_forged.len(), forged.len());
    for ((check, shown), claim) in of_forged.iter().zip(&forged) {
        assert_eq!(check, "unverified", "{claim} was taken for {shown}");
    }
    let of_found = checks(&answers[1]);
    for ((check, shown), (claim, (start, end))) in of_found.iter().zip(&misplaced) {
        assert_eq!(check, "moved", "{claim}");
        assert_eq!((&shown["start"], &shown["end"]), (&json!(start), &json!(end)), "{claim}");
    }
    for ((check, shown), claim) in of_found[misplaced.len()..].iter().zip(&true_ones) {
        assert_eq!(check, "verified", "{claim}");
        assert_eq!((&shown["start"], &shown["end"]), (&claim["start"], &claim["end"]));
        let words = shown["symbol"].as_str().map_or(1, |symbol| symbol.split_whitespace().count());
        assert_eq!(words, 1, "more is shown beside the mark than was looked up: {shown}");
    }

    let comment = project.read("comment.md");
    let (of_forged, of_found) = comment.split_once("#### 2.").unwrap();
    assert!(of_forged.contains("No citation of this answer holds: read it as a guess."), "{of_forged}");
    // What an answer's own words say of its evidence does not look like what the host says.
    let signs = |text: &str| text.matches("] \u{2713} ").count();
    assert_eq!(signs(of_forged), 0, "{of_forged}");
    assert_eq!(signs(of_found), true_ones.len(), "{of_found}");
}

#[tokio::test]
async fn one_return_says_what_does_not_hold_and_the_next_answer_is_final() {
    let stubborn = json!({
        "answer": "`Ledger.total` rounds in `ledger.round_up` at `ledger.py:99` [1][7].\n\nIt never fails.",
        "citations": [
            {"path": "ledger.py", "start": 14, "end": 14, "quote": "return round(sum(items))"},
            {"path": "ledger.py", "start": 13, "end": 13, "symbol": "total", "quote": "def total(self, items, up):"},
        ],
        "gaps": [],
    });
    let mut wrong = script();
    wrong.questioner = vec![questions(&[Q1, Q2])];
    wrong.answerers.insert(Q1.into(), vec![bash("cat ledger.py"), submit(stubborn)]);
    let nothing = json!({"answer": "", "citations": [], "gaps": ["Looked for `save` with grep."]});
    wrong.answerers.insert(Q2.into(), vec![submit(nothing)]);
    let project = project();
    let model = Model::start(wrong).await;
    let mut command = project.acquire(&model);
    project.end(command.args(["--no-patch", "--sandbox", "namespaces"])).await.assert_code(0);

    let requests = model.requests_of(&Who::Answerer(Q1.into()));
    assert_eq!(requests.len(), 3, "it is returned once and no more");
    let returned = requests[2]["messages"].as_array().unwrap().last().unwrap();
    insta::assert_snapshot!(returned["content"].as_str().unwrap(), @r#"
    Your answer was looked up at this commit. 1 of 2 citations hold; this does not:
    - Citation [1] `ledger.py` 14-14: neither the quote nor the symbol stands in this file as you wrote it
    - Citation [2] `ledger.py`: `total` stands there, but the quote does not. Give the lines as they are, or leave the quote out.
    - The text names `ledger.py:99`, which stands neither in the repository at this commit nor in the issue. Drop it, or, if it is of the outside, name it without a code span, without a file and a line, and say where you read it, or "not checked here".
    - The text names `ledger.round_up`, which stands neither in the repository at this commit nor in the issue. Drop it, or, if it is of the outside, name it without a code span, without a file and a line, and say where you read it, or "not checked here".
    - The text refers to [7], but there is no such citation.
    Correct the citations and the text (read the lines again; drop what you cannot show; move it to `gaps` if it matters), then submit the whole answer again. The next submission is final: what still does not hold will be shown to readers as unverified.
    "#);

    let answer = &project.knowledge()["pairs"][0]["answer"];
    let checks = checks(answer);
    assert_eq!(checks[0].0, "unverified");
    assert_eq!(checks[1].0, "verified");
    assert!(checks[1].1.get("quote").is_none(), "what is false is not shown beside a verified mark");
    let comment =
        project.read("comment.md").replace(&project.run_json()["base"].as_str().unwrap()[..12], "COMMIT");
    let (comment, _) = comment.split_once("<sub>Written by").unwrap();
    insta::assert_snapshot!(comment.trim_end(), @r"
    ### What the repository says about this issue

    2 questions about the code at commit `COMMIT`: 1 answered, 1 not found in the repository. 2 citations: 1 ✓ verified, 1 ⚠ unverified.

    #### 1. How does `total` read the price of an item?

    <sub><b>How it works</b> · Why it matters: It decides where to repair.</sub>

    ⚠ **Named in the answer but not in the repository:** `ledger.py:99`, `ledger.round_up`

    `Ledger.total` rounds in `ledger.round_up` at `ledger.py:99` [1][7]. *(not verified)*

    It never fails. *(not cited)*

    [1] ⚠ `ledger.py:L14` · *not found there*\
    [2] ✓ `ledger.py:L13` · `total`

    #### 2. Which functions of `Store` write to the file?

    <sub><b>How it works</b> · Why it matters: It decides where to repair.</sub>

    **Not found in this repository.** Looked for `save` with grep.
    ");
    assert_eq!(project.knowledge()["pairs"][1]["answer"]["status"], "gap");
}
