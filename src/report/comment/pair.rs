//! One question with its answer, as parts of the comment.

use pulldown_cmark::{Event, Tag};

use crate::{
    domain::{AnswerStatus, Block, Check, Citation, Origin, Pair},
    gate::markdown,
    report::{
        fit::{Piece, join, length},
        inert::{Links, inert, inert_blocks, inert_line},
        missing_name, words,
    },
};

use super::{
    cited::marked,
    evidence::{self, Quotes},
};

/// Shorter rests of an answer are not worth a fold, in characters.
const LEAST_FOLDED_CHARS: usize = 300;

/// How the parts of a comment are shown.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    pub links: &'a Links,
    pub quotes: Quotes,
    /// What stands of an answer before the rest of it is folded, in characters.
    pub unfolded_chars: usize,
    /// Most citations that are not folded.
    pub unfolded_citations: usize,
}

/// `number` counts from 1.
pub fn pieces(number: usize, pair: &Pair, layout: Layout<'_>) -> Vec<Piece> {
    let (question, answer) = (&pair.question, &pair.answer);
    let links = layout.links;
    let mut pieces = vec![Piece::Text(format!("#### {number}. {}", inert_line(&question.text, links)))];
    pieces.push(Piece::Text(format!("<sub>{}</sub>", about(pair, links))));
    let (invented, gaps): (Vec<&String>, _) = answer.gaps.iter().partition(|gap| missing_name(gap).is_some());
    let gaps: Vec<String> =
        gaps.into_iter().map(|gap| inert_line(gap, links)).filter(|gap| !gap.is_empty()).collect();
    let why_not = words::no_answer(answer.status);
    if let Some(why_not) = why_not {
        pieces.push(titled(&format!("**{why_not}**"), &gaps));
    }
    let holds = answer.citations.iter().any(|citation| citation.check != Check::Unverified);
    if answer.status == AnswerStatus::Answered && !holds {
        pieces.push(Piece::Text("⚠ **No citation of this answer holds: read it as a guess.**".to_owned()));
    }
    if !invented.is_empty() {
        let names: Vec<String> =
            invented.iter().filter_map(|gap| missing_name(gap)).map(|name| inert_line(name, links)).collect();
        let title = "⚠ **Named in the answer but not in the repository:**";
        pieces.push(Piece::Text(format!("{title} {}", names.join(", "))));
    }
    pieces.extend(text_and_evidence(&answer.text, &answer.citations, layout));
    if why_not.is_none() && !gaps.is_empty() {
        pieces.push(titled("**Not found:**", &gaps));
    }
    pieces
}

/// What another source of knowledge says.
pub fn block_pieces(block: &Block, layout: Layout<'_>) -> Vec<Piece> {
    let mut pieces = vec![Piece::Text(format!("#### {}", inert_line(&block.kind, layout.links)))];
    pieces.extend(text_and_evidence(&block.text, &block.citations, layout));
    pieces
}

fn text_and_evidence(text: &str, citations: &[Citation], layout: Layout<'_>) -> Vec<Piece> {
    let text = marked(&inert(text, layout.links), citations);
    let mut pieces = folded(inert_blocks(&text, layout.links), layout.unfolded_chars);
    if has_code_block(&text) {
        let note = "⚠ *The code above is the answer's own words: only quoted lines below it were looked up.*";
        pieces.push(Piece::Text(note.to_owned()));
    }
    pieces.extend(evidence::pieces(citations, layout.quotes, layout.unfolded_citations));
    pieces
}

/// What a model puts into a code block looks like the quotes that were looked up, and is not.
fn has_code_block(text: &str) -> bool {
    markdown::parser(text).any(|event| matches!(event, Event::Start(Tag::CodeBlock(_))))
}

/// One entry beside the title, several as a list below it.
fn titled(title: &str, entries: &[String]) -> Piece {
    Piece::Text(match entries {
        [] => title.to_owned(),
        [entry] => format!("{title} {entry}"),
        [..] => format!("{title}\n\n- {}", entries.join("\n- ")),
    })
}

fn about(pair: &Pair, links: &Links) -> String {
    let asked = match pair.origin {
        Origin::Questioner => "",
        Origin::Person => " · asked by a person",
        Origin::Resolver => " · asked during the repair",
    };
    let why = inert_line(&pair.question.why, links);
    let why = if why.is_empty() { String::new() } else { format!(" · Why it matters: {why}") };
    format!("<b>{}</b>{asked}{why}", words::category(pair.question.category))
}

/// The beginning in sight, a long rest under a fold.
fn folded(mut blocks: Vec<Piece>, unfolded_chars: usize) -> Vec<Piece> {
    let shown = (1..blocks.len()).find(|count| length(&join(&blocks[..=*count])) > unfolded_chars);
    if let Some(shown) = shown
        && length(&join(&blocks[shown..])) >= LEAST_FOLDED_CHARS
    {
        blocks.insert(shown, Piece::Open("The rest of the answer".to_owned()));
        blocks.push(Piece::Close);
    }
    blocks
}
