//! Citations with what the host found of each.

use crate::{
    domain::{Check, Citation},
    gate,
    report::{
        fit::Piece,
        markdown::{code_span, exact, fence, language},
        words::{self, Checks, cut},
    },
};

/// Longest path or symbol that is shown, in characters.
const MAX_NAME_CHARS: usize = 200;
/// Longest quote that is shown.
const MAX_QUOTE: (usize, usize) = (40, 4_000);

/// A line break, on GitHub and elsewhere.
const LINE_BREAK: &str = "\\\n";

/// Whether quotes are shown under the citations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    Shown,
    LeftOut,
}

/// The citations of an answer, numbered as its text refers to them; more than `unfolded` are folded.
pub fn pieces(citations: &[Citation], quotes: Quotes, unfolded: usize) -> Vec<Piece> {
    if citations.is_empty() {
        return Vec::new();
    }
    let lines: Vec<String> = (1..).zip(citations).map(|(number, citation)| line(number, citation)).collect();
    let mut quoted = Vec::new();
    if quotes == Quotes::Shown {
        quoted = (1..).zip(citations).filter_map(|(number, citation)| quote(number, citation)).collect();
    }
    let mut pieces = Vec::new();
    if citations.len() > unfolded {
        pieces.push(Piece::Open(format!("Evidence: {}", Checks::of(citations).words())));
        pieces.push(Piece::Text(lines.join(LINE_BREAK)));
        pieces.extend(quoted);
        pieces.push(Piece::Close);
    } else {
        pieces.push(Piece::Text(lines.join(LINE_BREAK)));
        if !quoted.is_empty() {
            pieces.push(Piece::Open("Quoted lines".to_owned()));
            pieces.extend(quoted);
            pieces.push(Piece::Close);
        }
    }
    pieces
}

fn line(number: usize, citation: &Citation) -> String {
    let mut line = format!("[{number}] {} {}", words::check_mark(citation.check), place(citation));
    if let Some(symbol) = &citation.symbol {
        line.push_str(&format!(" · {}", code_span(&cut(&exact(symbol), MAX_NAME_CHARS))));
    }
    if let Some(remark) = words::check_remark(citation.check) {
        line.push_str(&format!(" · *{remark}*"));
    }
    line
}

fn place(citation: &Citation) -> String {
    let Citation { start, end, .. } = citation;
    let lines = if start == end { format!("L{start}") } else { format!("L{start}-L{end}") };
    let label = code_span(&format!("{}:{lines}", cut(&exact(&citation.path), MAX_NAME_CHARS)));
    match &citation.permalink {
        Some(permalink) => format!("[{label}]({permalink})"),
        None => label,
    }
}

/// `None` also for lines that do not stand there: they are no quote.
fn quote(number: usize, citation: &Citation) -> Option<Piece> {
    let quote = citation.quote.as_deref().filter(|quote| !quote.trim().is_empty())?;
    if citation.check == Check::Unverified {
        return None;
    }
    let (lines, chars) = MAX_QUOTE;
    let mut shown: String = quote.trim_matches('\n').lines().take(lines).collect::<Vec<_>>().join("\n");
    shown = cut(&shown, chars);
    if quote.trim_matches('\n').lines().count() > lines {
        shown.push_str("\n…");
    }
    Some(Piece::Text(format!(
        "[{number}]\n{}",
        fence(&gate::visible::visible(&shown), language(&citation.path))
    )))
}
