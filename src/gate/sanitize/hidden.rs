//! What hides in raw HTML, and in what a reader of the source could take for it.

use std::ops::Range;

use super::{
    html::{Tag, Token},
    invisible,
    pass::Pass,
};

/// The elements that GitHub shows. Tags of others vanish there, and with them the words in their names.
const ELEMENTS: &str = "a abbr b bdo big blockquote br caption center cite code col colgroup dd del details dfn div dl dt \
    em figcaption figure font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p picture pre q rp rt ruby \
    s samp section small source span strike strong sub summary sup table tbody td tfoot th thead time \
    tr tt u ul var video wbr article aside footer header main nav";

/// Elements whose content is never shown as text.
const UNSHOWN: &str = "applet audio canvas datalist embed head iframe math noembed noframes noscript object script select \
    style svg template title";

/// Elements without content.
const VOID: &str = "br col embed hr img input source wbr link";

/// Attributes that only place or size what is shown, or say where it is.
const ATTRIBUTES: &str = "align colspan height href open rowspan src srcset start valign width";

fn is_listed(list: &str, name: &str) -> bool {
    list.split(' ').any(|listed| listed == name)
}

/// Comments, hidden elements, unknown tags, and attributes that are not shown.
pub(super) fn markup(text: &str, tokens: &[Token], pass: &mut Pass) {
    let mut done = 0;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Text(_) => {}
            Token::Comment(range) if range.start >= done => {
                pass.removed.comments += 1;
                pass.edits.remove(range.clone());
                done = range.end;
            }
            Token::Tag(tag) if tag.range.start >= done => {
                if !tag.closing && is_hidden(tag) {
                    done = element_end(tag, &tokens[index + 1..], text.len());
                    pass.removed.elements += 1;
                    pass.edits.remove(tag.range.start..done);
                } else if !tag.complete || !is_listed(ELEMENTS, &tag.name) {
                    pass.removed.elements += 1;
                    pass.edits.remove(tag.range.clone());
                } else {
                    attributes(tag, pass);
                }
            }
            Token::Comment(_) | Token::Tag(_) => {}
        }
    }
}

fn attributes(tag: &Tag, pass: &mut Pass) {
    for attribute in &tag.attributes {
        let count = match attribute.name.as_str() {
            name if is_listed(ATTRIBUTES, name) && !tag.closing => continue,
            "alt" => &mut pass.removed.alt_texts,
            "title" => &mut pass.removed.titles,
            _ => &mut pass.removed.attributes,
        };
        *count += 1;
        pass.edits.remove(attribute.range.clone());
    }
}

fn is_hidden(tag: &Tag) -> bool {
    is_listed(UNSHOWN, &tag.name)
        || tag.attributes.iter().any(|attribute| match attribute.name.as_str() {
            "hidden" => true,
            "style" => {
                let style: String = attribute.value.split_whitespace().collect();
                let style = style.to_ascii_lowercase();
                ["display:none", "visibility:hidden", "visibility:collapse", "opacity:0", "font-size:0"]
                    .iter()
                    .any(|rule| style.contains(rule))
            }
            _ => false,
        })
}

/// Where the element that `tag` opens ends: after its closing tag, else at the end of the text.
fn element_end(tag: &Tag, later: &[Token], end_of_text: usize) -> usize {
    if is_listed(VOID, &tag.name) {
        return tag.range.end;
    }
    let mut depth = 1;
    for token in later {
        let Token::Tag(other) = token else { continue };
        if other.name == tag.name {
            depth = if other.closing { depth - 1 } else { depth + 1 };
            if depth == 0 {
                return other.range.end;
            }
        }
    }
    end_of_text
}

/// Comment openers that are no comments to markdown: unclosed, escaped, or spelled with entities. A reader of
/// the source may take them for comments, so they go with all up to their end or the end of `run`. What lies
/// in `holes`, which are in order and apart, is passed over.
pub(super) fn comment_openers(text: &str, run: Range<usize>, holes: &[Range<usize>], pass: &mut Pass) {
    let first = holes.partition_point(|hole| hole.end <= run.start);
    let mut holes = holes[first..].iter().peekable();
    // Where the part of the comment starts that goes next.
    let mut open = None;
    let mut at = run.start;
    while at < run.end {
        if let Some(hole) = holes.next_if(|hole| hole.start <= at) {
            if let Some(start) = open {
                pass.edits.remove(start..hole.start.max(start));
                open = Some(hole.end);
            }
            at = hole.end;
            continue;
        }
        let rest = &text[at..run.end];
        let mark = if open.is_none() { "<!--" } else { "-->" };
        let Some(length) = spelled(rest, mark) else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if let Some(start) = open.take() {
            pass.edits.remove(start..at + length);
        } else {
            pass.removed.comments += 1;
            open = Some(at);
        }
        at += length;
    }
    if let Some(start) = open.filter(|start| *start < run.end) {
        pass.edits.remove(start..run.end);
    }
}

/// Cells beyond the last column, in each line of `rows`.
pub(super) fn cells(text: &str, rows: Range<usize>, columns: usize, pass: &mut Pass) {
    let mut at = rows.start;
    for line in text[rows].split_inclusive('\n') {
        let row = line.trim_end();
        let first = row.len() - row.trim_start_matches([' ', '\t', '>']).len();
        let first = first + usize::from(row[first..].starts_with('|'));
        let bars = row[first..].match_indices('|').map(|(bar, _)| first + bar);
        let mut bars = bars.filter(|bar| !row[..*bar].ends_with('\\'));
        if let Some(last) = bars.nth(columns - 1)
            && row[last..].contains(|c: char| c != '|' && !c.is_whitespace())
        {
            pass.removed.cells += 1;
            pass.edits.replace(at + last..at + row.len(), "|");
        }
        at += line.len();
    }
}

/// Length of the mark at the start of the text, each of its characters plain, escaped or an entity.
fn spelled(text: &str, mark: &str) -> Option<usize> {
    let mut at = 0;
    for wanted in mark.chars() {
        let rest = &text[at..];
        at += if rest.starts_with(wanted) {
            1
        } else if rest.strip_prefix('\\').is_some_and(|rest| rest.starts_with(wanted)) {
            2
        } else {
            invisible::entity(rest).filter(|(_, c)| *c == wanted)?.0
        };
    }
    Some(at)
}
