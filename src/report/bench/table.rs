//! The table of a bench: markdown that also reads well on a terminal.

use super::{ArmFigures, BenchFigures, QuestionFigures, RunFigures, Transitions};
use crate::{
    gate::shown::{self, number},
    report::words::{counted, duration},
    store::Outcome,
};

const UNKNOWN: &str = "–";

/// Runs that a sentence names; how many more there are is counted.
const MOST_NAMED: usize = 10;

/// One of the marks.
type Mark = fn(&QuestionFigures) -> f64;

/// Arms side by side, what the rows mean, then every instance.
pub fn bench_table(figures: &BenchFigures) -> String {
    let mut parts = vec![arms(figures)];
    let missing: usize = figures.arms.iter().map(|arm| arm.instances - arm.finished).sum();
    if missing > 0 {
        let all: usize = figures.arms.iter().map(|arm| arm.instances).sum();
        parts.push(format!(
            "{missing} of {all} runs have no result yet. The same command goes on with what is not finished; with \
             `--again failed` also with what failed."
        ));
    }
    parts.extend(without("No score yet", &figures.unscored));
    parts.extend(without("Questions not judged yet", &figures.unjudged));
    parts.push(meanings(figures));
    parts.push(instances(figures));
    parts.join("\n\n") + "\n"
}

/// Which runs lack a mark that was asked for.
fn without(what: &str, runs: &[String]) -> Option<String> {
    let named = runs.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match runs.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!runs.is_empty()).then(|| format!("{what}: {named}{more}. The same command tries again."))
}

fn arms(figures: &BenchFigures) -> String {
    let arms = &figures.arms;
    let mut rows: Vec<Vec<String>> = vec![row("", arms, |arm| arm.arm.clone())];
    rows.push(row("model", arms, |arm| known(arm.models.join(", "))));
    rows.push(row("runs finished", arms, |arm| format!("{} of {}", arm.finished, arm.instances)));
    rows.push(row("resolved", arms, resolved));
    rows.push(row("patches", arms, |arm| arm.patches.to_string()));
    rows.push(row("Resolver steps, mean / median", arms, |arm| {
        option(arm.steps, |steps| format!("{:.1} / {:.1}", steps.mean, steps.median))
    }));
    rows.push(row("tokens in / cached / out", arms, |arm| {
        option(arm.tokens, |tokens| {
            [tokens.input, tokens.cached, tokens.output].map(|n| number(n.round() as u64)).join(" / ")
        })
    }));
    let mut stages: Vec<&str> = Vec::new();
    for stage in arms.iter().flat_map(|arm| &arm.stages) {
        if !stages.contains(&stage.name.as_str()) {
            stages.push(&stage.name);
        }
    }
    // In the method's order, whichever arm has which stages.
    stages.sort_by_key(|name| ["resolve", "total"].iter().position(|last| last == name));
    for name in stages {
        rows.push(row(&format!("{name}: time, money"), arms, |arm| {
            let stage = arm.stages.iter().find(|stage| stage.name == name);
            option(stage, |stage| format!("{}, {}", duration(stage.seconds), dollars(stage.usd)))
        }));
    }
    rows.push(row("money, all runs", arms, |arm| dollars(arm.usd)));
    rows.push(row("citations ✓ / ↪ / ⚠", arms, |arm| {
        let of = arm.citations;
        let all = of.verified + of.moved + of.unverified;
        if all == 0 {
            UNKNOWN.to_owned()
        } else {
            format!("{} / {} / {}", of.verified, of.moved, of.unverified)
        }
    }));
    rows.push(row("statements not cited", arms, |arm| {
        let of = arm.citations;
        let any = of != Default::default();
        if any { of.not_cited.to_string() } else { UNKNOWN.to_owned() }
    }));
    if arms.iter().any(|arm| arm.questions.is_some()) {
        let marks: [(&str, Mark); 6] = [
            ("relevance", |it| it.relevance),
            ("answerability", |it| it.answerability),
            ("diagnostic utility", |it| it.diagnostic_utility),
            ("reasoning depth", |it| it.reasoning_depth),
            ("clarity", |it| it.clarity),
            ("coverage", |it| it.coverage),
        ];
        for (name, mark) in marks {
            let name = format!("questions: {name}");
            rows.push(row(&name, arms, |arm| {
                option(arm.questions.as_ref(), |it| format!("{:.2}", mark(it)))
            }));
        }
        rows.push(row("judging: runs, money", arms, |arm| {
            option(arm.questions.as_ref(), |it| format!("{}, {}", it.judged_runs, dollars(it.judge_usd)))
        }));
    }
    let against =
        |name: &str, cell: fn(Transitions) -> String| row(name, arms, |arm| option(arm.against_first, cell));
    if arms.len() > 1 {
        rows.push(against("recovered / regressed", |it| format!("{} / {}", it.recovered, it.regressed)));
        rows.push(against("both / neither", |it| format!("{} / {}", it.both, it.neither)));
        rows.push(against("steps, change", |it| percent(it.steps_change)));
        rows.push(against("steps, change on recovered", |it| percent(it.steps_change_recovered)));
    }
    markdown(&rows)
}

fn meanings(figures: &BenchFigures) -> String {
    let mut lines = vec![
        "Steps, tokens, time and money of a stage are means over finished runs; time is wall clock.".to_owned(),
        "resolved: what the scorer said; a run without a patch is not resolved. – is not known: no scorer, or no price.".to_owned(),
        "✓ the quote or symbol stands at the cited place, ↪ it stood elsewhere in the file, ⚠ not found.".to_owned(),
    ];
    if figures.arms.iter().any(|arm| arm.questions.is_some()) {
        lines.push(
            "Questions are marked from 1 to 10 by a judge; what that cost is in no other figure.".to_owned(),
        );
    }
    if let [first, _, ..] = figures.arms.as_slice() {
        lines.push(format!(
            "Against {}, on instances scored in both: recovered, resolved here alone; regressed, resolved there alone. \
             Steps are compared on instances that both finished.",
            first.arm
        ));
    }
    lines.into_iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

fn instances(figures: &BenchFigures) -> String {
    let mut rows = vec![row("instance", &figures.arms, |arm| arm.arm.clone())];
    for instance in &figures.instances {
        let cells = instance.runs.iter().map(run);
        rows.push([instance.instance.clone()].into_iter().chain(cells).collect());
    }
    markdown(&rows)
}

fn run(run: &RunFigures) -> String {
    match run {
        RunFigures::Finished { outcome, resolved, steps, seconds, usd } => {
            let what = match (outcome, resolved) {
                (_, Some(true)) => "resolved",
                (Outcome::Patch, Some(false)) => "not resolved",
                (Outcome::Patch, None) => "patch, unscored",
                _ => "no patch",
            };
            let steps = steps.map(|steps| counted(steps as usize, "step"));
            let figures = steps.into_iter().chain([duration(*seconds), dollars(*usd)]);
            format!("{what}: {}", figures.collect::<Vec<_>>().join(", "))
        }
        RunFigures::Failed { class } => format!("failed ({class})"),
        RunFigures::Unfinished { why: None } => "unfinished".to_owned(),
        RunFigures::Unfinished { why: Some(why) } => format!("unfinished: {why}"),
        RunFigures::Elsewhere => "in another process".to_owned(),
        RunFigures::Missing { why: None } => "missing".to_owned(),
        RunFigures::Missing { why: Some(why) } => format!("missing: {why}"),
    }
}

fn resolved(arm: &ArmFigures) -> String {
    if arm.scored == 0 || arm.scored < arm.finished && arm.scored + arm.patches == arm.finished {
        // Nobody scored a patch, so that only those without one are known.
        return UNKNOWN.to_owned();
    }
    let share = 100.0 * arm.resolved as f64 / arm.scored as f64;
    if arm.scored == arm.finished {
        format!("{} ({share:.1} %)", arm.resolved)
    } else {
        format!("{} of {} scored ({share:.1} %)", arm.resolved, arm.scored)
    }
}

fn row(name: &str, arms: &[ArmFigures], cell: impl Fn(&ArmFigures) -> String) -> Vec<String> {
    [name.to_owned()].into_iter().chain(arms.iter().map(cell)).collect()
}

fn option<T>(value: Option<T>, cell: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), cell)
}

fn known(text: String) -> String {
    if text.is_empty() { UNKNOWN.to_owned() } else { text }
}

fn dollars(usd: Option<f64>) -> String {
    option(usd, |usd| format!("${usd:.3}"))
}

fn percent(change: Option<f64>) -> String {
    option(change, |change| format!("{:+.1} %", 100.0 * change))
}

/// A table whose columns stand under each other. What others wrote cannot leave its cell.
fn markdown(rows: &[Vec<String>]) -> String {
    let cell = |text: &str| shown::text(text).replace(['\n', '\t'], " ").replace('|', "\\|");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|text| text.chars().count()).max().unwrap_or_default().max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
    };
    let mut lines: Vec<String> = rows.iter().map(|row| line(row)).collect();
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>();
    lines.insert(1.min(lines.len()), line(&rule));
    lines.join("\n")
}

#[cfg(test)]
mod tests;
