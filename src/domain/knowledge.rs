//! Knowledge: what was asked, what was found, and what the host could check of it.
//!
//! The serialised form is the contract of `knowledge.json`.

use serde::{Deserialize, Serialize};

use super::CommitId;

/// The four kinds of repository knowledge that repairs lack (ACQUIRE, section III-B1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// How something works: flow of logic, state, data.
    MechanismBehavior,
    /// Which contracts and conventions hold: interfaces, hierarchies, errors.
    DesignUsage,
    /// Where something is, and how the parts hang together.
    LocatingStructure,
    /// What the code assumes of libraries, protocols and the language.
    EcosystemStandards,
}

/// A question that a repair would need answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// `q1`, `q2`, …: counted in the order asked.
    pub id: String,
    /// Only where the asker was told to choose one of the four: a person is not, nor is a free Questioner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    pub text: String,
    /// Why the answer matters for the repair; empty where nobody said.
    pub why: String,
}

/// What the host found when it looked a citation up at the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The quote, or the symbol's definition or call, stands inside the range.
    Verified,
    /// It stood not there but at exactly one other place of that file; the range was corrected.
    Moved,
    /// Everything else.
    Unverified,
}

/// A place in the repository that an answer rests on. Lines count from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// As the model gave it; a citation whose path is no valid path is unverified.
    pub path: String,
    pub start: u32,
    pub end: u32,
    /// Where it was found, the file's own lines; otherwise as the model gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    pub check: Check,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerStatus {
    #[default]
    Answered,
    /// The Answerer looked and did not find it.
    Gap,
    /// A limit on steps, money or time ended the Answerer first.
    Budget,
    /// The Answerer ended without an answer for another reason.
    Failed,
}

impl AnswerStatus {
    fn is_answered(&self) -> bool {
        *self == Self::Answered
    }

    /// Whether the search came to its end, be it that nothing was found.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Answered | Self::Gap)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: AnswerStatus,
    /// Paragraphs refer to citations as `[1]`, `[2]`, counted from 1.
    pub text: String,
    /// What could not be found, in the Answerer's words; and, in the host's, what the text names that does not exist.
    pub gaps: Vec<String>,
    pub citations: Vec<Citation>,
}

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Questioner,
    Person,
    Resolver,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    pub origin: Origin,
    pub question: Question,
    pub answer: Answer,
}

/// What a knowledge source other than questions says, such as a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Of the source, such as `proposal`.
    pub kind: String,
    /// Paragraphs refer to citations as in an [`Answer`].
    pub text: String,
    pub citations: Vec<Citation>,
    /// As of an [`Answer`]; absent in JSON where the text is there.
    #[serde(default, skip_serializing_if = "AnswerStatus::is_answered")]
    pub status: AnswerStatus,
    /// As of an [`Answer`]; absent in JSON where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl Block {
    /// What an agent handed in that was asked for something else than an answer.
    pub fn new(kind: &str, answer: Answer) -> Self {
        let Answer { status, text, gaps, citations } = answer;
        Self { kind: kind.to_owned(), text, citations, status, gaps }
    }
}

/// All knowledge of a run, bound to one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knowledge {
    pub commit: CommitId,
    pub pairs: Vec<Pair>,
    pub blocks: Vec<Block>,
}

impl Knowledge {
    pub fn empty(commit: CommitId) -> Self {
        Self { commit, pairs: Vec::new(), blocks: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.blocks.is_empty()
    }

    /// Of all answers, then of all blocks.
    pub fn citations(&self) -> impl Iterator<Item = &Citation> {
        let of_pairs = self.pairs.iter().flat_map(|pair| &pair.answer.citations);
        of_pairs.chain(self.blocks.iter().flat_map(|block| &block.citations))
    }
}
