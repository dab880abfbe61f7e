//! One question with its answer, as parts of the comment.

use crate::{
    domain::{AnswerStatus, Block, Check, Origin, Pair},
    report::{
        fit::{Piece, blocks, join, length},
        inert::{Links, inert, inert_line},
        words,
    },
};

use super::{
    cited::marked,
    evidence::{self, Quotes},
};

/// What stands of an answer before the rest of it is folded, in characters.
const UNFOLDED_CHARS: usize = 1_500;
/// Shorter rests are not worth a fold.
const LEAST_FOLDED_CHARS: usize = 500;

/// `number` counts from 1.
pub fn pieces(number: usize, pair: &Pair, links: &Links, quotes: Quotes) -> Vec<Piece> {
    let (question, answer) = (&pair.question, &pair.answer);
    let mut pieces = vec![Piece::Text(format!("#### {number}. {}", inert_line(&question.text, links)))];
    pieces.push(Piece::Text(format!("<sub>{}</sub>", about(pair, links))));
    if let Some(why_not) = words::no_answer(answer.status) {
        pieces.push(Piece::Text(format!("**{why_not}**")));
    }
    let holds = answer.citations.iter().any(|citation| citation.check != Check::Unverified);
    if answer.status == AnswerStatus::Answered && !holds {
        pieces.push(Piece::Text("⚠ **No citation of this answer holds: read it as a guess.**".to_owned()));
    }
    pieces.extend(folded(blocks(&marked(&inert(&answer.text, links), &answer.citations))));
    pieces.extend(evidence::pieces(&answer.citations, quotes));
    if !answer.gaps.is_empty() {
        let gaps: Vec<String> =
            answer.gaps.iter().map(|gap| format!("- {}", inert_line(gap, links))).collect();
        pieces.push(Piece::Text(format!("**Not found**\n{}", gaps.join("\n"))));
    }
    pieces
}

/// What another source of knowledge says.
pub fn block_pieces(block: &Block, links: &Links, quotes: Quotes) -> Vec<Piece> {
    let mut pieces = vec![Piece::Text(format!("#### {}", inert_line(&block.kind, links)))];
    pieces.extend(folded(blocks(&marked(&inert(&block.text, links), &block.citations))));
    pieces.extend(evidence::pieces(&block.citations, quotes));
    pieces
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
fn folded(mut blocks: Vec<Piece>) -> Vec<Piece> {
    let shown = (1..blocks.len()).find(|count| length(&join(&blocks[..=*count])) > UNFOLDED_CHARS);
    if let Some(shown) = shown
        && length(&join(&blocks[shown..])) >= LEAST_FOLDED_CHARS
    {
        blocks.insert(shown, Piece::Open("The rest of the answer".to_owned()));
        blocks.push(Piece::Close);
    }
    blocks
}
