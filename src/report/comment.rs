//! The knowledge comment: what was asked about the repository, what was found, and what of it was checked.

use crate::{
    domain::{Answer, AnswerStatus, Block, Category, Citation, Knowledge, Origin, Pair},
    gate::prose::{Paragraph, ParagraphKind, ends_in_text, paragraphs},
};

use super::{
    citations,
    inert::{inert, inert_line},
    markdown::{cut, details},
    run::RunFacts,
};

/// GitHub takes 65,536 characters; ours stay below (S-34).
pub(super) const MAX_CHARS: usize = 60_000;
/// Answers with more characters than this are folded after about half of it.
const FOLD_CHARS: usize = 3_000;

/// What the comment is made of.
#[derive(Debug, Clone)]
pub struct CommentInput<'a> {
    pub knowledge: &'a Knowledge,
    pub run: RunFacts<'a>,
    /// What readers should know of the run, such as that the issue was cut.
    pub notices: &'a [String],
}

/// The comment, at most 60,000 characters.
pub fn comment(input: &CommentInput<'_>) -> String {
    let footer = input.run.footer();
    let limit = MAX_CHARS - footer.chars().count() - 2;
    let mut body = body(input, true);
    if body.chars().count() > limit {
        body = self::body(input, false);
    }
    let notice = "*This comment was too long for GitHub; the rest is in the run's `knowledge.json`.*";
    format!("{}\n\n{footer}\n", cut(body.trim_end(), limit, notice))
}

fn body(input: &CommentInput<'_>, quotes: bool) -> String {
    let knowledge = input.knowledge;
    let mut parts = vec!["## What the repository says about this issue".to_owned(), summary(input)];
    parts.extend(input.notices.iter().map(|notice| format!("> {}", inert_line(notice))));
    for (number, pair) in (1..).zip(&knowledge.pairs) {
        parts.push(question(number, pair));
        parts.push(answer(&pair.answer, quotes));
    }
    for block in &knowledge.blocks {
        parts.push(format!("### {}", inert_line(&capitalised(&block.kind))));
        parts.push(block_text(block, quotes));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn summary(input: &CommentInput<'_>) -> String {
    let knowledge = input.knowledge;
    let commit = input.run.commit_link();
    if knowledge.is_empty() {
        return format!("Nothing was asked about this repository at {commit}.");
    }
    let all: Vec<&Citation> = knowledge
        .pairs
        .iter()
        .flat_map(|pair| &pair.answer.citations)
        .chain(knowledge.blocks.iter().flat_map(|block| &block.citations))
        .collect();
    let asked = match knowledge.pairs.len() {
        0 => "A model read this repository".to_owned(),
        1 => "A model asked one question about the repository and answered it from the code".to_owned(),
        count => {
            format!("A model asked {count} questions about the repository and answered them from the code")
        }
    };
    let checked = match citations::tally(&all) {
        Some(tally) => format!("Every citation was looked up there: {tally}."),
        None => "No answer cites a place in the code, so nothing could be checked.".to_owned(),
    };
    format!("{asked} at {commit}. {checked}")
}

fn question(number: u32, pair: &Pair) -> String {
    let question = &pair.question;
    let category = match question.category {
        Category::MechanismBehavior => "Mechanism and behaviour",
        Category::DesignUsage => "Design and usage",
        Category::LocatingStructure => "Location and structure",
        Category::EcosystemStandards => "Ecosystem and standards",
    };
    let origin = match pair.origin {
        Origin::Questioner => "",
        Origin::Person => " · asked by a person",
        Origin::Resolver => " · asked during the repair",
    };
    let why = inert_line(&question.why);
    let why = if why.is_empty() { why } else { format!(" Why it matters: {why}") };
    format!("### {number}. {}\n\n> **{category}**{origin}.{why}", inert_line(&question.text))
}

fn answer(answer: &Answer, quotes: bool) -> String {
    let status = match answer.status {
        AnswerStatus::Answered => "",
        AnswerStatus::Gap => "**Not found in this repository.**",
        AnswerStatus::Budget => "**No full answer:** the limit on steps, money or time came first.",
        AnswerStatus::Failed => "**No answer:** the agent ended before it had one.",
    };
    let claims = matches!(answer.status, AnswerStatus::Answered | AnswerStatus::Budget);
    let gaps = match answer.status {
        _ if answer.gaps.is_empty() => String::new(),
        AnswerStatus::Answered => format!("**Left open**\n\n{}", citations::gaps(&answer.gaps)),
        _ => format!("**Looked for**\n\n{}", citations::gaps(&answer.gaps)),
    };
    joined(&[
        status.to_owned(),
        prose(&answer.text, &answer.citations, claims),
        citations::evidence(&answer.citations, quotes),
        gaps,
    ])
}

fn block_text(block: &Block, quotes: bool) -> String {
    joined(&[prose(&block.text, &block.citations, true), citations::evidence(&block.citations, quotes)])
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// A model's text, inert, with its references linked, its uncited paragraphs marked where they `claim`
/// something, and folded where it is long.
fn prose(text: &str, citations: &[Citation], claim: bool) -> String {
    let text = inert(text.trim());
    let paragraphs = paragraphs(&text);
    let fold_at = (text.chars().count() > FOLD_CHARS).then(|| fold(&paragraphs)).flatten();
    let mut shown = String::new();
    let mut folded = String::new();
    let mut done = 0;
    for (index, paragraph) in paragraphs.iter().enumerate() {
        let to = if fold_at.is_some_and(|at| index >= at) { &mut folded } else { &mut shown };
        to.push_str(&text[done..paragraph.range.start]);
        let text = if claim && paragraph.is_uncited() { marked(paragraph) } else { paragraph.text.clone() };
        to.push_str(&citations::linked(&text, citations));
        done = paragraph.range.end;
    }
    let last = if fold_at.is_some() { &mut folded } else { &mut shown };
    last.push_str(&text[done..]);
    match fold_at {
        Some(_) => format!("{}\n\n{}", shown.trim_end(), details("The rest of this answer", &folded)),
        None => shown,
    }
}

/// Where to fold: after the paragraph with which about half of the limit is shown; never within a list.
fn fold(paragraphs: &[Paragraph]) -> Option<usize> {
    let is_item = |at: usize| paragraphs.get(at).is_some_and(|one| one.kind == ParagraphKind::Item);
    let mut length = 0;
    for (index, paragraph) in paragraphs.iter().enumerate() {
        let splits_list = is_item(index) && index > 0 && is_item(index - 1);
        let follows_lead_in = index > 0 && paragraphs[index - 1].kind == ParagraphKind::LeadIn;
        if length > FOLD_CHARS / 2 && !splits_list && !follows_lead_in {
            return Some(index);
        }
        length += paragraph.text.chars().count();
    }
    None
}

/// Says that a paragraph rests on nothing. The mark goes where it is still part of the paragraph: a fence or
/// a table at its end would take it in.
fn marked(paragraph: &Paragraph) -> String {
    let gap = match paragraph.kind {
        _ if ends_in_text(&paragraph.text) => " ",
        // Four spaces keep it within an item of any list.
        ParagraphKind::Item => "\n\n    ",
        _ => "\n\n",
    };
    format!("{}{gap}*(not cited)*", paragraph.text)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
