//! Marks that finished runs get: is the patch right, are the questions good. Each is given once.

use super::{
    folder,
    judge::{self, Judgement},
    program::Kept,
    score::{Asked, Score, Scorer},
    work::Work,
};
use crate::{
    domain::{Origin, Question},
    report,
    store::{Outcome, RunSummary, write_atomically},
};

impl Work {
    /// Has a finished run scored and judged, as far as that is asked for, not done yet, and not being done by another
    /// process.
    pub(super) async fn mark(&self, number: usize, summary: &RunSummary) {
        if self.around.cancel.is_cancelled()
            || !self.lacks_score(number, summary) && !self.lacks_judgement(number)
        {
            return;
        }
        let (arm, instance) = self.run(number);
        let _lock = match self.folder.lock_marks(arm, &instance.id) {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.say(&report::run_marked_elsewhere(&self.name(number))),
            Err(error) => return self.say(&report::run_unmarked(&self.name(number), &error.to_string())),
        };
        // Looked at once more: another process may just have done it.
        if let Some(scorer) = &self.bench.scorer
            && self.lacks_score(number, summary)
        {
            self.score(number, scorer).await;
        }
        if self.lacks_judgement(number) {
            self.judge(number).await;
        }
    }

    /// Whether a scorer is to say something of a patch that it has not said yet.
    pub(super) fn lacks_score(&self, number: usize, summary: &RunSummary) -> bool {
        self.bench.scorer.is_some()
            && summary.outcome == Outcome::Patch
            && self.stored_score(number).is_none()
    }

    /// The same of a judge and questions.
    pub(super) fn lacks_judgement(&self, number: usize) -> bool {
        self.judge.is_some() && !self.questions(number).is_empty() && self.stored_judgement(number).is_none()
    }

    async fn score(&self, number: usize, scorer: &Scorer) {
        let (arm, instance) = self.run(number);
        let name = self.name(number);
        let log = self.folder.beside(arm, &instance.id, "score.log");
        let unscored = |why: String| self.say(&report::run_unscored(&name, &why, &log.display().to_string()));
        let patch = match self.folder.patch(arm, &instance.id) {
            Ok(patch) => patch.unwrap_or_default(),
            Err(error) => return unscored(error.to_string()),
        };
        let (clock, cancel) = (&*self.around.clock, &self.around.cancel);
        let Asked { score, said } = scorer.score(&instance.id, &patch, clock, cancel).await;
        if let Err(error) = write_atomically(&log, self.log(&said).as_bytes()) {
            return unscored(error.to_string());
        }
        let score = match score {
            Ok(score) => score.to_store(&self.redact),
            Err(error) => return unscored(error.to_string()),
        };
        let file = self.folder.beside(arm, &instance.id, "score.json");
        if let Err(error) = write_atomically(&file, &folder::json(&score)) {
            return unscored(error.to_string());
        }
        self.say(&report::run_scored(&name, score.resolved));
    }

    /// What a scorer said, as it is stored.
    fn log(&self, said: &Kept) -> String {
        let text = (self.redact)(&String::from_utf8_lossy(&said.bytes));
        if said.left_out > 0 { report::left_out(said.left_out) + &text } else { text }
    }

    /// The score of the patch as it is, by the scorer that is asked for; by any where none is.
    pub(super) fn stored_score(&self, number: usize) -> Option<Score> {
        let (arm, instance) = self.run(number);
        let file = self.folder.beside(arm, &instance.id, "score.json");
        let score: Score = serde_json::from_slice(&folder::read(&file).ok()??).ok()?;
        let patch = self.folder.patch(arm, &instance.id).ok()??;
        score.is_of(&patch, self.bench.scorer.as_ref(), &self.redact).then_some(score)
    }

    async fn judge(&self, number: usize) {
        let (arm, instance) = self.run(number);
        let Some(judge) = &self.judge else { return };
        let questions = self.questions(number);
        let name = self.name(number);
        let unjudged = |why: String| self.say(&report::run_unjudged(&name, &why));
        let fence = match self.around.process.random() {
            Ok(random) => random.fence,
            Err(why) => return unjudged(why),
        };
        let (clock, cancel) = (&*self.around.clock, &self.around.cancel);
        let mut judgement = self.begun_judgement(number).unwrap_or_else(|| judge.begin(instance, &questions));
        let judged = judge.judge(instance, &questions, fence, clock, cancel, &mut judgement).await;
        // Also what is not all of it: it is paid.
        let file = self.folder.beside(arm, &instance.id, "judge.json");
        if let Err(error) = write_atomically(&file, &folder::json(&judgement)) {
            return unjudged(error.to_string());
        }
        if let Err(error) = judged {
            return unjudged(error.to_string());
        }
        self.say(&report::run_judged(&name, questions.len()));
    }

    /// The whole judgement of the questions as they are, by the model that is asked for; by any where none is.
    pub(super) fn stored_judgement(&self, number: usize) -> Option<Judgement> {
        self.begun_judgement(number).filter(|judgement| judgement.coverage.is_some())
    }

    /// The same, whole or not.
    fn begun_judgement(&self, number: usize) -> Option<Judgement> {
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
