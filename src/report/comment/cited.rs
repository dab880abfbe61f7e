//! Which statements of an answer rest on evidence.

use std::ops::Range;

use pulldown_cmark::Event;

use crate::{
    domain::{Check, Citation},
    gate::{
        edits::Edits,
        markdown::{is_block_border, parser},
        prose::{Paragraph, ParagraphKind, citation_marks, paragraphs},
    },
    report::words::check_mark,
};

/// Marks what states something and has no citation, or none that holds, and where some hold those that do not.
/// What a paragraph with a colon leads to may rest on that paragraph's citations; a list of which nothing is
/// cited is marked once.
pub fn marked(text: &str, citations: &[Citation]) -> String {
    let paragraphs = paragraphs(text);
    let ends = statement_ends(text, &paragraphs);
    let mut edits = Edits::default();
    mark_citations(&mut edits, text, &paragraphs, citations);
    let mut lead = Support::Nothing;
    let mut rest: &[(Paragraph, Option<usize>)] = &paragraphs.into_iter().zip(ends).collect::<Vec<_>>();
    while let [(first, end), after @ ..] = rest {
        let items = rest.iter().take_while(|(one, _)| one.kind == ParagraphKind::Item).count();
        let support = |one: &Paragraph| Support::of(&one.cited, citations);
        match first.kind {
            ParagraphKind::Item => {
                let (list, after) = rest.split_at(items);
                rest = after;
                let supports: Vec<Support> = list.iter().map(|(one, _)| support(one).max(lead)).collect();
                let last = &list[list.len() - 1].0;
                match supports[0].mark() {
                    Some(mark) if list.len() > 1 && supports.iter().all(|one| *one == supports[0]) => {
                        edits.insert(last.range.end, alone(mark));
                    }
                    _ => {
                        for ((_, end), support) in list.iter().zip(supports) {
                            append(&mut edits, *end, support);
                        }
                    }
                }
                lead = Support::Nothing;
                continue;
            }
            ParagraphKind::Table => {
                if let Some(mark) = support(first).max(lead).mark() {
                    edits.insert(first.range.end, alone(mark));
                }
            }
            ParagraphKind::Prose | ParagraphKind::Quote => append(&mut edits, *end, support(first)),
            ParagraphKind::LeadIn | ParagraphKind::Heading | ParagraphKind::Code | ParagraphKind::Other => {}
        }
        lead = if first.kind == ParagraphKind::LeadIn { support(first) } else { Support::Nothing };
        rest = after;
    }
    edits.apply(text)
}

/// A citation that does not hold must not hide between those that do. Where none does, one mark says so.
fn mark_citations(edits: &mut Edits, text: &str, paragraphs: &[Paragraph], citations: &[Citation]) {
    let stands = |one: &u32| Support::of(&[*one], citations) == Support::Verified;
    for mark in citation_marks(text) {
        let Some(paragraph) = paragraphs.iter().rfind(|one| one.range.contains(&mark.range.start)) else {
            continue;
        };
        let unmarked = matches!(paragraph.kind, ParagraphKind::LeadIn | ParagraphKind::Heading)
            || paragraph.cited.iter().any(stands);
        if unmarked && !mark.numbers.iter().all(stands) {
            let sign = check_mark(Check::Unverified);
            match text[mark.range.end..].chars().next() {
                // A link stays one.
                Some('(') => edits.insert(mark.range.end - 1, format!(" {sign}")),
                Some('[') => edits.insert(mark.range.end, format!(" {sign} ")),
                _ => edits.insert(mark.range.end, format!(" {sign}")),
            }
        }
    }
}

/// As a paragraph of its own, whatever follows.
fn alone(mark: &str) -> String {
    format!("\n\n{mark}\n")
}

fn append(edits: &mut Edits, end: Option<usize>, support: Support) {
    if let (Some(end), Some(mark)) = (end, support.mark()) {
        edits.insert(end, format!(" {mark}"));
    }
}

/// What a statement rests on, the better the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Support {
    Nothing,
    /// Citations of which none holds.
    Unverified,
    Verified,
}

impl Support {
    /// Numbers of citations that do not exist support nothing.
    fn of(cited: &[u32], citations: &[Citation]) -> Self {
        let cited = cited.iter().filter_map(|number| citations.get((*number as usize).checked_sub(1)?));
        let support = cited.map(|citation| match citation.check {
            Check::Verified | Check::Moved => Self::Verified,
            Check::Unverified => Self::Unverified,
        });
        support.max().unwrap_or(Self::Nothing)
    }

    fn mark(self) -> Option<&'static str> {
        match self {
            Self::Nothing => Some("*(not cited)*"),
            Self::Unverified => Some("*(not verified)*"),
            Self::Verified => None,
        }
    }
}

/// Where the first words of each paragraph end: before a list or a fence that is nested in it. `None` where
/// it begins with code.
fn statement_ends(text: &str, paragraphs: &[Paragraph]) -> Vec<Option<usize>> {
    let mut events = parser(text).into_offset_iter().peekable();
    let mut end_in = |paragraph: &Range<usize>| {
        let mut end = None;
        let mut ended = false;
        while let Some((event, range)) = events.next_if(|(_, range)| range.start < paragraph.end) {
            if range.start < paragraph.start {
                continue;
            }
            match event {
                Event::Start(pulldown_cmark::Tag::CodeBlock(_)) => ended = true,
                _ if is_block_border(&event) => ended |= end.is_some(),
                _ if !ended => end = end.max(Some(range.end)),
                _ => {}
            }
        }
        end
    };
    paragraphs.iter().map(|paragraph| end_in(&paragraph.range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture_tests::citation;

    fn shown(text: &str) -> String {
        let citations = [citation("a.rs", 1, 2, Check::Verified), citation("b.rs", 1, 2, Check::Unverified)];
        marked(text, &citations)
    }

    #[test]
    fn statements_without_evidence_are_marked() {
        insta::assert_snapshot!(shown(
            "First [1].\n\nSecond,\nin two lines.\n\nThird [2]. Fourth [9].\n\nFifth [2][1].\n\n## Heading\n\n```\ncode\n```\n\n> quoted"
        ), @"
        First [1].

        Second,
        in two lines. *(not cited)*

        Third [2]. Fourth [9]. *(not verified)*

        Fifth [2] ⚠ [1].

        ## Heading

        ```
        code
        ```

        > quoted *(not cited)*
        ");
    }

    #[test]
    fn a_list_is_marked_where_its_evidence_is_missing() {
        insta::assert_snapshot!(shown(
            "Steps:\n\n- one [1]\n- two\n  - nested\n\n  ```\n  fence\n  ```\n- three\n\nUncited:\n1. one\n2. two\n\nLed [1]:\n\n- one\n- two\n\n| a |\n|---|\n| b |"
        ), @"
        Steps:

        - one [1]
        - two *(not cited)*
          - nested

          ```
          fence
          ```
        - three *(not cited)*

        Uncited:
        1. one
        2. two

        *(not cited)*


        Led [1]:

        - one
        - two

        | a |
        |---|
        | b |

        *(not cited)*
        ");
    }

    #[test]
    fn a_citation_that_fails_is_marked_among_those_that_hold() {
        insta::assert_snapshot!(shown(
            "One [1]. Two [2].\n\nBoth [1, 2], and `x[2]`.\n\n- three [1] [2]\n- four [2]\n\nNone such [1] [9].\n\nOnly [2].\n\nLed [2]:\n\n- five [1], [2](x)"
        ), @"
        One [1]. Two [2] ⚠.

        Both [1, 2] ⚠, and `x[2]`.

        - three [1] [2] ⚠
        - four [2] *(not verified)*

        None such [1] [9] ⚠.

        Only [2]. *(not verified)*

        Led [2] ⚠:

        - five [1], [2 ⚠](x)
        ");
    }

    proptest::proptest! {
        #[test]
        fn marks_are_all_that_is_added(text in "([a-z \n`*>|\\[\\]1-2:]|\n\n|```|- |\\[1\\]){0,40}") {
            let marked = shown(&text);
            let without = marked
                .replace("\n\n*(not cited)*\n", "").replace("\n\n*(not verified)*\n", "")
                .replace(" *(not cited)*", "").replace(" *(not verified)*", "")
                .replace("] ⚠ [", "][").replace(" ⚠", "");
            let text = text.replace("] [", "][");
            let without = without.replace("] [", "][");
            proptest::prop_assert_eq!(without, text);
        }
    }
}
