//! Marks that finished runs get: is the patch right, are the questions good. Each is given once.

use super::{
    folder,
    judge::{self, Judgement},
    score::{self, Score},
    work::Work,
};
use crate::{
    domain::{Origin, Question},
    report,
    store::{Outcome, RunSummary, write_atomically},
};

impl Work {
    /// Scores the patch of a finished run, once.
    pub(super) async fn score(&self, number: usize, summary: &RunSummary) {
        let (arm, instance) = self.run(number);
        let Some(scorer) = &self.bench.scorer else { return };
        if summary.outcome != Outcome::Patch || self.stored_score(number).is_some() {
            return;
        }
        let name = self.name(number);
        let log = self.folder.beside(arm, &instance.id, "score.log");
        let unscored = |why: String| self.say(&report::run_unscored(&name, &why, &log.display().to_string()));
        let patch = match self.folder.patch(arm, &instance.id) {
            Ok(patch) => patch.unwrap_or_default(),
            Err(error) => return unscored(error.to_string()),
        };
        let path = self.folder.run(arm, &instance.id).join("patch.diff");
        let (clock, cancel) = (&*self.around.clock, &self.around.cancel);
        let score = match scorer.score(&instance.id, (&path, &patch), &log, clock, cancel).await {
            Ok(score) => score,
            Err(error) => return unscored(error.to_string()),
        };
        let file = self.folder.beside(arm, &instance.id, "score.json");
        if let Err(error) = write_atomically(&file, &folder::json(&score)) {
            return unscored(error.to_string());
        }
        self.say(&report::run_scored(&name, score.resolved));
    }

    /// The score of the patch as it is, by the scorer that is asked for; by any where none is.
    pub(super) fn stored_score(&self, number: usize) -> Option<Score> {
        let (arm, instance) = self.run(number);
        let file = self.folder.beside(arm, &instance.id, "score.json");
        let score: Score = serde_json::from_slice(&folder::read(&file).ok()??).ok()?;
        let patch = self.folder.patch(arm, &instance.id).ok()??;
        let same_scorer = self.bench.scorer.as_ref().is_none_or(|scorer| scorer.text() == score.scorer);
        (same_scorer && score.patch_sha256 == score::digest(&patch)).then_some(score)
    }

    /// Has the questions of a finished run judged, once.
    pub(super) async fn judge(&self, number: usize) {
        let (arm, instance) = self.run(number);
        let Some(judge) = &self.judge else { return };
        let questions = self.questions(number);
        if questions.is_empty() || self.stored_judgement(number).is_some() {
            return;
        }
        let name = self.name(number);
        let unjudged = |why: String| self.say(&report::run_unjudged(&name, &why));
        let fence = match self.around.process.random() {
            Ok(random) => random.fence,
            Err(why) => return unjudged(why),
        };
        let (clock, cancel) = (&*self.around.clock, &self.around.cancel);
        let judgement = match judge.judge(instance, &questions, fence, clock, cancel).await {
            Ok(judgement) => judgement,
            Err(error) => return unjudged(error.to_string()),
        };
        let file = self.folder.beside(arm, &instance.id, "judge.json");
        if let Err(error) = write_atomically(&file, &folder::json(&judgement)) {
            return unjudged(error.to_string());
        }
        self.say(&report::run_judged(&name, questions.len()));
    }

    /// The judgement of the questions as they are, by the model that is asked for; by any where none is.
    pub(super) fn stored_judgement(&self, number: usize) -> Option<Judgement> {
        let (arm, instance) = self.run(number);
        let file = self.folder.beside(arm, &instance.id, "judge.json");
        let judgement: Judgement = serde_json::from_slice(&folder::read(&file).ok()??).ok()?;
        let same_model = self.judge.as_ref().is_none_or(|judge| judge.name() == judgement.model);
        let asked = judge::digest(instance, &self.questions(number));
        (same_model && judgement.asked_sha256 == asked).then_some(judgement)
    }

    /// What a run's Questioner asked.
    fn questions(&self, number: usize) -> Vec<Question> {
        let (arm, instance) = self.run(number);
        let pairs = self.folder.knowledge(arm, &instance.id).map(|knowledge| knowledge.pairs);
        let pairs = pairs.into_iter().flatten();
        pairs.filter(|pair| pair.origin == Origin::Questioner).map(|pair| pair.question).collect()
    }
}
