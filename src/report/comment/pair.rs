//! One question with its answer, as parts of the comment.

use pulldown_cmark::{Event, Tag};

use crate::{
    domain::{Answer, AnswerStatus, Block, Check, Citation, Origin, Pair},
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

/// What a reader handed in.
#[derive(Clone, Copy)]
struct Found<'a> {
    /// `answer` or `proposal`.
    what: &'static str,
    status: AnswerStatus,
    text: &'a str,
    gaps: &'a [String],
    citations: &'a [Citation],
}

/// `number` counts from 1.
pub fn pieces(number: usize, pair: &Pair, layout: Layout<'_>) -> Vec<Piece> {
    let question = inert_line(&pair.question.text, layout.links);
    let mut pieces = vec![Piece::Text(format!("#### {number}. {question}"))];
    pieces.extend(about(pair, layout.links).map(|about| Piece::Text(format!("<sub>{about}</sub>"))));
    let Answer { status, text, gaps, citations } = &pair.answer;
    pieces.extend(found(Found { what: "answer", status: *status, text, gaps, citations }, layout));
    pieces
}

/// What another source of knowledge says.
pub fn block_pieces(block: &Block, layout: Layout<'_>) -> Vec<Piece> {
    let Block { kind, text, citations, status, gaps } = block;
    let title =
        if kind == "proposal" { "Cause and repair, as proposed" } else { &inert_line(kind, layout.links) };
    let mut pieces = vec![Piece::Text(format!("#### {title}"))];
    pieces.push(Piece::Text(
        "<sub>By an agent that tried no repair. Its citations were looked up, its conclusions were not.</sub>"
            .to_owned(),
    ));
    pieces.extend(found(Found { what: "proposal", status: *status, text, gaps, citations }, layout));
    pieces
}

fn found(found: Found<'_>, layout: Layout<'_>) -> Vec<Piece> {
    let Found { what, status, text, gaps, citations } = found;
    let links = layout.links;
    let mut pieces = Vec::new();
    let (invented, gaps): (Vec<&String>, _) = gaps.iter().partition(|gap| missing_name(gap).is_some());
    let gaps: Vec<String> =
        gaps.into_iter().map(|gap| inert_line(gap, links)).filter(|gap| !gap.is_empty()).collect();
    let why_not = words::nothing_found(what, status);
    if let Some(why_not) = &why_not {
        pieces.push(titled(&format!("**{why_not}**"), &gaps));
    }
    let holds = citations.iter().any(|citation| citation.check != Check::Unverified);
    if status == AnswerStatus::Answered && !holds {
        pieces.push(Piece::Text(format!("⚠ **No citation of this {what} holds: read it as a guess.**")));
    }
    if !invented.is_empty() {
        let names: Vec<String> =
            invented.iter().filter_map(|gap| missing_name(gap)).map(|name| inert_line(name, links)).collect();
        let title = format!("⚠ **Named in the {what} but not in the repository:**");
        pieces.push(Piece::Text(format!("{title} {}", names.join(", "))));
    }
    pieces.extend(text_and_evidence(text, citations, layout));
    if why_not.is_none() && !gaps.is_empty() {
        pieces.push(titled("**Not found:**", &gaps));
    }
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

fn about(pair: &Pair, links: &Links) -> Option<String> {
    let category = pair.question.category.map(|category| format!("<b>{}</b>", words::category(category)));
    let asked = match pair.origin {
        Origin::Questioner => None,
        Origin::Person => Some("asked by a person".to_owned()),
        Origin::Resolver => Some("asked during the repair".to_owned()),
    };
    let why = Some(inert_line(&pair.question.why, links)).filter(|why| !why.is_empty());
    let why = why.map(|why| format!("Why it matters: {why}"));
    let all: Vec<String> = [category, asked, why].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(" · "))
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
