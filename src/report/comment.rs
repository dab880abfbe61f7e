//! The knowledge comment: what was asked about the repository, what was found, and what of it holds.

mod cited;
mod evidence;
mod pair;

use crate::{
    domain::{Account, AnswerStatus, Issue, Knowledge, RepoId, RunId},
    gate::shown::number,
};

use super::{
    fit::{MAX_CHARS, Piece, closed, fitting, join, length},
    inert::{Links, inert_line},
    markdown::code_span,
    words::{self, Checks, counted, cut},
};
pub use cited::marked;
use evidence::Quotes;
use pair::Layout;

pub struct CommentInput<'a> {
    pub knowledge: &'a Knowledge,
    pub issue: &'a Issue,
    /// As the run was asked for it: a path or a URL.
    pub repo: &'a str,
    pub run_id: &'a RunId,
    /// Of this program.
    pub version: &'a str,
    /// Model names by role.
    pub models: &'a [(String, String)],
    pub account: Account,
    /// Whether the price of every model is known.
    pub priced: bool,
    /// What the run did in another way than asked.
    pub notes: &'a [String],
}

/// What a reader takes in at a glance: characters of all answers, and citations, before the rest is folded.
const UNFOLDED_CHARS: usize = 2_000;
const UNFOLDED_CITATIONS: usize = 12;
/// Room for the notice that something was left out, in characters.
const NOTICE_CHARS: usize = 400;
/// Most notes that are shown, and the longest of them in characters.
const MAX_NOTES: (usize, usize) = (20, 500);

/// `comment.md`: at most 60,000 characters. Where there is more to say, quotes are left out first, then whole
/// parts from the end, and the comment says so.
pub fn comment(input: &CommentInput<'_>) -> String {
    let (head, foot) = (head(input), foot(input));
    let room = MAX_CHARS - length(&join(&head)) - length(&join(&foot)) - NOTICE_CHARS;
    let mut pieces = sections(input, Quotes::Shown).concat();
    let mut notice = None;
    if length(&join(&pieces)) > room {
        let sections = sections(input, Quotes::LeftOut);
        pieces = sections.concat();
        let fits = fitting(&pieces, room);
        notice = Some(Piece::Text(notice_of(input, &sections, fits)));
        pieces = closed(&pieces[..fits]);
    }
    let mut text = join(head.iter().chain(&pieces).chain(&notice).chain(&foot));
    text.push('\n');
    text
}

/// Each pair's and each block's parts.
fn sections(input: &CommentInput<'_>, quotes: Quotes) -> Vec<Vec<Piece>> {
    let knowledge = input.knowledge;
    let links = links(knowledge);
    // The more there is, the less of each stands open.
    let count = (knowledge.pairs.len() + knowledge.blocks.len()).max(1);
    let layout = Layout {
        links: &links,
        quotes,
        unfolded_chars: UNFOLDED_CHARS / count,
        unfolded_citations: UNFOLDED_CITATIONS / count,
    };
    let pairs = (1..).zip(&knowledge.pairs).map(|(number, pair)| pair::pieces(number, pair, layout));
    let blocks = knowledge.blocks.iter().map(|block| pair::block_pieces(block, layout));
    pairs.chain(blocks).collect()
}

/// Text may link to where citations do: into the repository at the commit.
fn links(knowledge: &Knowledge) -> Links {
    blob_base(knowledge).map_or_else(Links::none, |base| Links::below(&base))
}

/// `https://…/blob/COMMIT/`, as far as a citation tells.
fn blob_base(knowledge: &Knowledge) -> Option<String> {
    let marker = format!("/blob/{}/", knowledge.commit);
    knowledge.citations().filter_map(|citation| citation.permalink.as_deref()).find_map(|link| {
        let at = link.find(&marker)?;
        Some(link[..at + marker.len()].to_owned())
    })
}

fn head(input: &CommentInput<'_>) -> Vec<Piece> {
    let knowledge = input.knowledge;
    let about = if input.issue.is_none() { "" } else { " about this issue" };
    let mut pieces = vec![Piece::Text(format!("### What the repository says{about}"))];
    let checks = checks(knowledge);
    let commit = commit(knowledge);
    let mut line = match knowledge.pairs.len() {
        0 if knowledge.blocks.iter().any(|block| block.status == AnswerStatus::Answered) => {
            format!("A proposal for the repair, by an agent that read the code at commit {commit}.")
        }
        0 => format!("Looked up at commit {commit}."),
        count => format!(
            "{} about the code at commit {commit}: {}.",
            counted(count, "question"),
            words::answered(knowledge)
        ),
    };
    if checks.total() > 0 {
        line.push_str(&format!(" {}: {}.", counted(checks.total(), "citation"), checks.words()));
    }
    pieces.push(Piece::Text(line));
    pieces
}

fn checks(knowledge: &Knowledge) -> Checks {
    Checks::of(knowledge.citations())
}

fn commit(knowledge: &Knowledge) -> String {
    let short = code_span(knowledge.commit.short());
    match blob_base(knowledge) {
        Some(base) => {
            let repository = base.trim_end_matches(&format!("/blob/{}/", knowledge.commit)).to_owned();
            format!("[{short}]({repository}/commit/{})", knowledge.commit)
        }
        None => short,
    }
}

fn foot(input: &CommentInput<'_>) -> Vec<Piece> {
    let [tokens, money, time] = words::account(&input.account, input.priced);
    let figures = [
        words::models(input.models),
        tokens,
        money,
        time,
        repository(input.repo),
        format!("run {}", code_span(input.run_id.as_str())),
        format!("acquire {}", input.version),
    ];
    let legend = words::legend(checks(input.knowledge));
    let mut pieces = vec![Piece::Text(format!(
        "<sub>Written by a language model that could read the repository and change nothing.{}<br>{}</sub>",
        legend.map_or_else(String::new, |legend| format!(" {legend}")),
        figures.join(" · ")
    ))];
    let notes: Vec<&String> = input.notes.iter().filter(|note| matters(note)).collect();
    if !notes.is_empty() {
        let (most, chars) = MAX_NOTES;
        let mut lines: Vec<String> = notes
            .iter()
            .take(most)
            .map(|note| format!("- {}", inert_line(&cut(note, chars), &Links::none())))
            .collect();
        if notes.len() > most {
            lines.push(format!("- … and {} more in `run.json`", notes.len() - most));
        }
        pieces.push(Piece::Open("Notes on this run".to_owned()));
        pieces.push(Piece::Text(lines.join("\n")));
        pieces.push(Piece::Close);
    }
    pieces
}

/// Whether a note changes what a reader should believe. How the run was set up stands in `run.json`.
fn matters(note: &str) -> bool {
    let set_up = ["Sandbox: ", "The workspace of ", "A sandbox may use "];
    !set_up.iter().any(|beginning| note.starts_with(beginning)) && !note.contains(": the provider refused ")
}

/// `owner/name`, or the name of a folder: where it lies on a disk is nobody's business.
fn repository(repo: &str) -> String {
    let name = match RepoId::from_url(repo) {
        Ok(id) => id.slug(),
        Err(_) => {
            let name = repo.trim_end_matches('/').rsplit('/').next().unwrap_or(repo);
            cut(name, 100)
        }
    };
    code_span(&name)
}

/// Says what was left out, and where it is.
fn notice_of(input: &CommentInput<'_>, sections: &[Vec<Piece>], kept: usize) -> String {
    let mut end = 0;
    let whole = sections
        .iter()
        .take_while(|section| {
            end += section.len();
            end <= kept
        })
        .count();
    let missing = sections.len() - whole;
    let what = match missing {
        0 => "The quoted lines are left out".to_owned(),
        _ => format!(
            "The quoted lines and {} of {} answers, or parts of them, are left out",
            missing,
            sections.len()
        ),
    };
    format!(
        "> **Cut to fit.** {what}, since a comment holds {} characters. `knowledge.json` of run {} has everything.",
        number(MAX_CHARS as u64),
        code_span(input.run_id.as_str())
    )
}

#[cfg(test)]
mod tests;
