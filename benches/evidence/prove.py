"""`scripts/prove evidence`: claims about released code, checked as a run checks them, judged by an oracle.

Usage: prove.py CHECKER REPOSITORY…

CHECKER is the program of `main.rs`. Prints one JSON line a figure; tells every false verdict on stderr.
"""

import json
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

from claims import claims_about, texts_about
from oracle import File, judge

SEED = 20261130


def read(repo: str) -> dict[str, File]:
    """The regular files of its commit, as git has them."""
    git = lambda *arguments: subprocess.run(["git", "-C", repo, *arguments], check=True, capture_output=True).stdout
    entries = [entry.split(b"\t", 1) for entry in git("ls-tree", "-rz", "HEAD").split(b"\0") if entry]
    files = {}
    for meta, path in entries:
        mode, _, blob = meta.split()
        content = git("cat-file", "blob", blob.decode())
        # What is binary or huge is nothing that people cite.
        if mode != b"120000" and b"\0" not in content and 0 < len(content) < 1_000_000:
            files[path.decode()] = File(path.decode(), content)
    return files


def check(checker: str, questions: list[dict]) -> dict[int, dict]:
    text = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([checker], input=text, stdout=subprocess.PIPE, text=True, check=True)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    return {verdict["id"]: verdict for verdict in verdicts}


missed = []


def row(name, value, unit, target=None, ok=True):
    if not ok:
        missed.append(name)
    print(json.dumps({"name": name, "value": value, "unit": unit, "target": target, "ok": ok}, separators=(",", ":")))


def main():
    checker, *repos = sys.argv[1:]
    trees = {repo: read(repo) for repo in repos}
    questions, made, texts = [], {}, {}
    for repo, files in trees.items():
        name = Path(repo).name
        for kind, expect, claim in claims_about(name, files, SEED):
            made[len(questions)] = (repo, kind, expect, claim)
            questions.append({"id": len(questions), "repo": repo, "claim": claim})
        for text, there, invented in texts_about(files, f"{SEED} {name}"):
            texts[len(questions)] = (repo, there, invented)
            questions.append({"id": len(questions), "repo": repo, "prose": text})
    verdicts = check(checker, questions)
    assert len(verdicts) == len(questions), "a question was not answered"
    judge_claims(trees, made, verdicts)
    judge_texts(texts, verdicts)
    sys.exit(1 if missed else 0)


def judge_claims(trees, made, verdicts):
    false, checks, recognised, missed = Counter(), Counter(), Counter(), Counter()
    for number, (repo, kind, expect, claim) in made.items():
        verdict = verdicts[number]
        checks[verdict["check"]] += 1
        if why := judge(trees[repo], claim, verdict):
            false[verdict["check"]] += 1
            tell("FALSE", repo, kind, claim, verdict, why)
        if expect:
            recognised[expect, verdict["check"] == expect] += 1
            if verdict["check"] != expect:
                missed[kind] += 1
                tell("not recognised", repo, kind, claim, verdict, f"expected {expect}")
    for kind, number in missed.most_common():
        print(f"evidence: not recognised: {number} of {kind}", file=sys.stderr)
    forged = sum(expect is None for _, _, expect, _ in made.values())
    row("evidence_repositories", len(trees), "released archives")
    row("evidence_files", sum(map(len, trees.values())), "files")
    row("evidence_citations", len(made), "citations checked")
    row("evidence_forged", forged, "of them forged")
    for name in ("verified", "moved", "unverified"):
        row(f"evidence_{name}", checks[name], f"called {name}")
    for name in ("verified", "moved"):
        row(f"evidence_false_{name}", false[name], f"called {name} but not", "<= 0", false[name] == 0)
    for name, what in (("verified", "true"), ("moved", "moved")):
        right, all_of_them = recognised[name, True], recognised[name, True] + recognised[name, False]
        share = round(100 * right / max(1, all_of_them), 3)
        row(f"evidence_{what}_recognised", share, f"% of {all_of_them} {what} ones", ">= 99", share >= 99)
    times = [1e3 * verdicts[number]["seconds"] for number in made]
    row("evidence_time_median", round(statistics.median(times), 3), "ms a citation")
    row("evidence_time_p99", round(statistics.quantiles(times, n=100)[98], 3), "ms a citation")


def judge_texts(texts, verdicts):
    flagged = unflagged = there_all = invented_all = 0
    for number, (repo, there, invented) in texts.items():
        missing = set(verdicts[number]["missing"])
        for name in there:
            there_all += 1
            if name in missing:
                flagged += 1
                print(f"evidence: {Path(repo).name}: exists but was called missing: {name}", file=sys.stderr)
        for name in invented:
            invented_all += 1
            if name not in missing:
                unflagged += 1
                print(f"evidence: {Path(repo).name}: invented but not noticed: {name}", file=sys.stderr)
    row("evidence_names_wrongly_missing", flagged, f"of {there_all} names in prose that exist", "<= 0", flagged == 0)
    row("evidence_names_invented_unnoticed", unflagged, f"of {invented_all} invented names in prose", "<= 0", unflagged == 0)
    times = [1e3 * verdicts[number]["seconds"] for number in texts]
    row("evidence_names_time_median", round(statistics.median(times), 3), "ms a text of some 30 names")


def tell(what, repo, kind, claim, verdict, why):
    shown = {key: value for key, value in claim.items() if value is not None}
    place = f"{verdict['check']} {verdict['start']}-{verdict['end']}"
    print(f"evidence: {what}: {Path(repo).name}: {kind}: {shown}: {place}: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
