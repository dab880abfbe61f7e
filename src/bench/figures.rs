//! From what runs left to the figures of the table. Values in, values out.

use super::judge::{Judgement, Marks};
use crate::{
    domain::{Check, Knowledge, Money},
    gate::prose::{Paragraph, paragraphs},
    report::{
        ArmFigures, BenchFigures, CitationFigures, InstanceFigures, MeanTokens, QuestionFigures, RunFigures,
        Spread, StageFigures, Transitions,
    },
    store::{AgentSummary, Outcome, RunSummary, Usage},
};

/// A run that came to a result, with what belongs to it.
#[derive(Debug, Clone)]
pub struct Finished {
    pub summary: RunSummary,
    pub knowledge: Option<Knowledge>,
    /// `None` where nobody scored its patch.
    pub resolved: Option<bool>,
    /// `None` where nobody judged its questions.
    pub judgement: Option<Judgement>,
}

/// One run of the bench.
#[derive(Debug, Clone)]
pub enum Run {
    Finished(Box<Finished>),
    /// Everything else, as the table has it.
    Other(RunFigures),
}

impl Run {
    fn finished(&self) -> Option<&Finished> {
        match self {
            Self::Finished(finished) => Some(finished),
            Self::Other(_) => None,
        }
    }
}

/// `runs` holds a row for each arm, in each a run for each instance. Who lacks a mark is left to the caller, who knows
/// which were asked for.
pub fn figures(version: &str, arms: &[String], instances: &[String], runs: &[Vec<Run>]) -> BenchFigures {
    let first = runs.first();
    let arms = arms.iter().zip(runs).enumerate().map(|(number, (arm, runs))| ArmFigures {
        against_first: first.filter(|_| number > 0).map(|first| transitions(first, runs)),
        ..arm_figures(arm, runs)
    });
    let rows = instances.iter().enumerate().map(|(at, instance)| InstanceFigures {
        instance: instance.clone(),
        runs: runs.iter().filter_map(|arm| arm.get(at)).map(run_figures).collect(),
    });
    BenchFigures {
        version: version.to_owned(),
        arms: arms.collect(),
        instances: rows.collect(),
        unscored: Vec::new(),
        unjudged: Vec::new(),
    }
}

fn arm_figures(arm: &str, runs: &[Run]) -> ArmFigures {
    let finished: Vec<&Finished> = runs.iter().filter_map(Run::finished).collect();
    let totals: Vec<Usage> = finished.iter().map(|run| run.summary.total).collect();
    let mut models: Vec<String> =
        finished.iter().filter_map(|run| run.summary.models.get("resolver")).cloned().collect();
    models.sort();
    models.dedup();
    ArmFigures {
        arm: arm.to_owned(),
        models,
        instances: runs.len(),
        finished: finished.len(),
        patches: finished.iter().filter(|run| run.summary.outcome == Outcome::Patch).count(),
        scored: finished.iter().filter(|run| run.resolved.is_some()).count(),
        resolved: finished.iter().filter(|run| run.resolved == Some(true)).count(),
        steps: spread(finished.iter().filter_map(|run| steps(&run.summary)).map(f64::from).collect()),
        tokens: (!totals.is_empty()).then(|| MeanTokens {
            input: mean(totals.iter().map(|total| total.tokens.input as f64)),
            cached: mean(totals.iter().map(|total| total.tokens.cached as f64)),
            output: mean(totals.iter().map(|total| total.tokens.output as f64)),
        }),
        stages: stages(&finished),
        usd: sum(finished.iter().map(|run| run_usd(&run.summary))).filter(|_| !finished.is_empty()),
        citations: citations(finished.iter().filter_map(|run| run.knowledge.as_ref())),
        questions: questions(&finished.iter().filter_map(|run| run.judgement.as_ref()).collect::<Vec<_>>()),
        against_first: None,
    }
}

/// A stage that a run did not come to counts as nothing for it.
fn stages<'a>(finished: &[&'a Finished]) -> Vec<StageFigures> {
    let mut names: Vec<&str> = Vec::new();
    for stage in finished.iter().flat_map(|run| &run.summary.stages) {
        if !names.contains(&stage.name.as_str()) {
            names.push(&stage.name);
        }
    }
    let count = finished.len() as f64;
    let figures = names.into_iter().map(|name| {
        let all = || {
            let of = |run: &&'a Finished| run.summary.stages.iter().map(|stage| (&run.summary, stage));
            finished.iter().flat_map(of).filter(|(_, stage)| stage.name == name)
        };
        let agents = all().flat_map(|(run, stage)| stage.agents.iter().map(|agent| agent_usd(run, agent)));
        StageFigures {
            name: name.to_owned(),
            seconds: all().map(|(_, stage)| stage.seconds).sum::<f64>() / count,
            usd: sum(agents).map(|usd| usd / count),
        }
    });
    let mut figures: Vec<StageFigures> = figures.collect();
    if !finished.is_empty() {
        figures.push(StageFigures {
            name: "total".to_owned(),
            seconds: mean(finished.iter().map(|run| run.summary.total.seconds)),
            usd: sum(finished.iter().map(|run| run_usd(&run.summary))).map(|usd| usd / count),
        });
    }
    figures
}

/// What an agent cost. Tokens without money are a price that nobody knew, unless all prices of the run are known:
/// then the model is free.
fn agent_usd(run: &RunSummary, agent: &AgentSummary) -> Option<f64> {
    let known = !run.unpriced || agent.usd > Money::ZERO || agent.tokens.total() == 0;
    known.then(|| agent.usd.usd())
}

/// What a run cost; its total also holds calls of agents that failed.
fn run_usd(run: &RunSummary) -> Option<f64> {
    (!run.unpriced).then(|| run.total.usd.usd())
}

/// `None` as soon as one is not known.
fn sum(mut all: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    all.try_fold(0.0, |sum, one| Some(sum + one?))
}

/// Model calls of the Resolver.
fn steps(summary: &RunSummary) -> Option<u32> {
    let stage = summary.stages.iter().find(|stage| stage.name == "resolve")?;
    Some(stage.agents.iter().map(|agent| agent.steps).sum())
}

fn citations<'a>(all: impl Iterator<Item = &'a Knowledge>) -> CitationFigures {
    let mut figures = CitationFigures::default();
    for knowledge in all {
        let answers = knowledge.pairs.iter().map(|pair| (&pair.answer.text, &pair.answer.citations));
        let blocks = knowledge.blocks.iter().map(|block| (&block.text, &block.citations));
        for (text, citations) in answers.chain(blocks) {
            figures.not_cited += paragraphs(text).iter().filter(|one| Paragraph::is_uncited(one)).count();
            for citation in citations {
                match citation.check {
                    Check::Verified => figures.verified += 1,
                    Check::Moved => figures.moved += 1,
                    Check::Unverified => figures.unverified += 1,
                }
            }
        }
    }
    figures
}

fn questions(judged: &[&Judgement]) -> Option<QuestionFigures> {
    let marks: Vec<&Marks> = judged.iter().flat_map(|judgement| &judgement.questions).collect();
    let mean_of = |mark: fn(&Marks) -> u8| mean(marks.iter().map(|one| f64::from(mark(one))));
    let coverage: Vec<f64> =
        judged.iter().filter_map(|judgement| judgement.coverage).map(f64::from).collect();
    (!marks.is_empty()).then(|| QuestionFigures {
        judged_runs: judged.len(),
        judged_questions: marks.len(),
        relevance: mean_of(|one| one.relevance),
        answerability: mean_of(|one| one.answerability),
        diagnostic_utility: mean_of(|one| one.diagnostic_utility),
        reasoning_depth: mean_of(|one| one.reasoning_depth),
        clarity: mean_of(|one| one.clarity),
        coverage: mean(coverage.into_iter()),
        judge_usd: sum(judged.iter().map(|judgement| judgement.usd.map(Money::usd))),
    })
}

fn transitions(first: &[Run], arm: &[Run]) -> Transitions {
    let both: Vec<(&Finished, &Finished)> =
        first.iter().zip(arm).filter_map(|(a, b)| Some((a.finished()?, b.finished()?))).collect();
    let count = |before: bool, after: bool| {
        both.iter().filter(|(a, b)| (a.resolved, b.resolved) == (Some(before), Some(after))).count()
    };
    let recovered = |(a, b): &(&Finished, &Finished)| (a.resolved, b.resolved) == (Some(false), Some(true));
    Transitions {
        recovered: count(false, true),
        regressed: count(true, false),
        both: count(true, true),
        neither: count(false, false),
        steps_change: steps_change(both.iter().copied()),
        steps_change_recovered: steps_change(both.iter().copied().filter(recovered)),
    }
}

fn steps_change<'a>(both: impl Iterator<Item = (&'a Finished, &'a Finished)>) -> Option<f64> {
    let both = both.filter_map(|(a, b)| Some((steps(&a.summary)?, steps(&b.summary)?)));
    let (before, after) = both.fold((0, 0), |(a, b), (x, y)| (a + x, b + y));
    (before > 0).then(|| f64::from(after) / f64::from(before) - 1.0)
}

fn run_figures(run: &Run) -> RunFigures {
    match run {
        Run::Finished(run) => RunFigures::Finished {
            outcome: run.summary.outcome,
            resolved: run.resolved,
            steps: steps(&run.summary),
            seconds: run.summary.total.seconds,
            usd: run_usd(&run.summary),
        },
        Run::Other(figures) => figures.clone(),
    }
}

/// Of at least one value.
fn mean(all: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = all.len() as f64;
    all.sum::<f64>() / count
}

fn spread(mut all: Vec<f64>) -> Option<Spread> {
    all.sort_by(f64::total_cmp);
    let (low, high) = (all.get(all.len().checked_sub(1)? / 2)?, all.get(all.len() / 2)?);
    Some(Spread { mean: mean(all.iter().copied()), median: (low + high) / 2.0 })
}

#[cfg(test)]
mod tests;
