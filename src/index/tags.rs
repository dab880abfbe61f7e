//! Definitions and calls of a source file, by syntax.
//!
//! The work is bounded: in bytes, in steps of the parser and the query (counted, not timed, so that every
//! machine finds the same), in places and in the depth of scopes. Past a bound nothing or less is found,
//! which leaves a citation unverified: never is more found than there is.

use std::{cmp::Reverse, collections::BTreeMap, ops::ControlFlow, ops::Range};

use tree_sitter::{
    Node, ParseOptions, ParseState, Parser, QueryCursor, QueryCursorOptions, QueryCursorState,
    StreamingIterator, Tree,
};

use super::language::{self, Language};
use crate::{
    domain::RepoPath,
    method::ports::{Scope, SymbolPlace, Symbols},
};

/// Larger files are not parsed.
const MAX_BYTES: usize = 2_000_000;
/// Progress reports (one each hundred steps of the parser, each thousand of the query) before giving up.
/// Two megabytes of ordinary code take about 30,000.
const MAX_REPORTS: u32 = 200_000;
/// Patterns that may be half matched at a time; hostile nesting otherwise costs quadratic time.
const MAX_OPEN_MATCHES: u32 = 4_096;
/// Children of an error node. The query looks through all later ones at each of them: quadratic time.
const MAX_ERROR_CHILDREN: u32 = 10_000;
const MAX_PLACES: usize = 200_000;
/// The innermost scopes that are told.
const MAX_SCOPES: usize = 16;

/// [`Symbols`] by tree-sitter grammars: C, C++, Go, Java, JavaScript, Python, Ruby, Rust, TypeScript.
///
/// Also `None` for a file over 2,000,000 bytes, and for one that the parser cannot get through.
#[derive(Debug, Clone, Copy, Default)]
pub struct SourceSymbols;

impl Symbols for SourceSymbols {
    fn places(&self, path: &RepoPath, text: &[u8]) -> Option<Vec<SymbolPlace>> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let language = language::of(path)?;
        let tree = parse(language, text)?;
        Some(with_scopes(capture(language, &tree, text)))
    }
}

fn parse(language: &Language, text: &[u8]) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar).ok()?;
    let mut reports = 0;
    let mut stop_late = |_: &ParseState| count(&mut reports);
    let mut read = |offset: usize, _| text.get(offset..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut stop_late);
    parser.parse_with_options(&mut read, None, Some(options)).filter(|tree| !has_wide_error(tree))
}

/// Rules keep the children of a node in balanced trees; only what the parser could not read lies flat.
fn has_wide_error(tree: &Tree) -> bool {
    if !tree.root_node().has_error() {
        return false;
    }
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.is_error() && node.child_count() > MAX_ERROR_CHILDREN {
            return true;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
        }
    }
}

fn count(reports: &mut u32) -> ControlFlow<()> {
    *reports += 1;
    if *reports > MAX_REPORTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// What a pattern says of a name. The order decides when several say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Type,
    Function,
    Member,
    Variable,
    Scope,
    Call,
}

impl Kind {
    fn of(capture: &str) -> Option<Self> {
        Some(match capture {
            "type" => Self::Type,
            "function" => Self::Function,
            "member" => Self::Member,
            "variable" => Self::Variable,
            "scope" => Self::Scope,
            "call" => Self::Call,
            _ => return None,
        })
    }
}

struct Found {
    kind: Kind,
    name: String,
    /// Of the name, in bytes.
    offset: usize,
    owner: Option<String>,
    bytes: Range<usize>,
    first: u32,
    last: u32,
}

fn capture(language: &Language, tree: &Tree, text: &[u8]) -> Vec<Found> {
    let names = language.query.capture_names();
    let mut cursor = QueryCursor::new();
    cursor.set_match_limit(MAX_OPEN_MATCHES);
    let mut reports = 0;
    let mut stop_late = |_: &QueryCursorState| count(&mut reports);
    let options = QueryCursorOptions::new().progress_callback(&mut stop_late);
    let mut matches = cursor.matches_with_options(&language.query, tree.root_node(), text, options);
    // Several patterns may say something of one name; what it is most of all counts.
    let mut found: BTreeMap<usize, Found> = BTreeMap::new();
    while let Some(one) = matches.next() {
        let (mut name, mut owner, mut whole, mut arguments) = (None, None, None, None);
        for capture in one.captures() {
            match names[capture.index as usize] {
                "name" => name = Some(capture.node),
                "owner" => owner = Some(capture.node),
                "arguments" => arguments = Some(capture.node),
                other => whole = Kind::of(other).map(|kind| (kind, capture.node)).or(whole),
            }
        }
        let (Some(name), Some((kind, node))) = (name, whole) else { continue };
        if arguments.is_some_and(|arguments| !is_blank(text, name.end_byte()..arguments.start_byte())) {
            continue;
        }
        let Some(text_of_name) = word(name, text) else { continue };
        // Where the parser made a separator up, two words stand side by side and none owns the other.
        let owner = owner
            .filter(|owner| !is_blank(text, owner.end_byte()..name.start_byte()))
            .and_then(|owner| word(owner, text))
            .map(without_type_arguments);
        let place = Found {
            kind,
            name: text_of_name,
            offset: name.start_byte(),
            owner,
            bytes: node.byte_range(),
            first: line(name.start_position().row),
            last: if kind == Kind::Call { line(name.start_position().row) } else { last_line(node) },
        };
        let known = found.get(&name.start_byte());
        if known.is_none_or(|known| place.kind < known.kind) {
            found.insert(name.start_byte(), place);
        }
        if found.len() >= MAX_PLACES {
            break;
        }
    }
    found.into_values().collect()
}

fn is_blank(text: &[u8], range: Range<usize>) -> bool {
    text.get(range).is_some_and(|between| between.trim_ascii().is_empty())
}

/// The node's text, without the mark of a Ruby or private name.
fn word(node: Node<'_>, text: &[u8]) -> Option<String> {
    let word = std::str::from_utf8(text.get(node.byte_range())?).ok()?;
    let word = word.trim_start_matches([':', '@', '#']);
    (!word.is_empty()).then(|| word.to_owned())
}

fn without_type_arguments(mut name: String) -> String {
    name.truncate(name.find('<').unwrap_or(name.len()));
    name
}

fn line(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1)
}

fn last_line(node: Node<'_>) -> u32 {
    let end = node.end_position();
    // Some nodes hold their line's end, and so stop at the start of the next line.
    let row = if end.column == 0 && end.row > node.start_position().row { end.row - 1 } else { end.row };
    line(row)
}

/// Sorts by position, drops locals, and gives each place the definitions around it.
fn with_scopes(mut found: Vec<Found>) -> Vec<SymbolPlace> {
    found.sort_by_key(|one| (one.bytes.start, Reverse(one.bytes.end), one.kind, one.first));
    let mut around: Vec<(usize, Kind, Vec<Scope>)> = Vec::new();
    let mut places = Vec::with_capacity(found.len());
    for one in found {
        while around.last().is_some_and(|(end, ..)| *end <= one.bytes.start) {
            around.pop();
        }
        let is_local = around.last().is_some_and(|(_, kind, _)| *kind == Kind::Function);
        if one.kind == Kind::Variable && is_local {
            continue;
        }
        let owners = match one.kind {
            // Belongs to the type, not to the method that sets it.
            Kind::Member => {
                let to = around.iter().rposition(|(_, kind, _)| *kind != Kind::Function);
                &around[..to.map_or(around.len(), |at| at + 1)]
            }
            _ => &around[..],
        };
        let mut scope: Vec<Scope> = Vec::new();
        for (_, _, names) in owners.iter().skip(owners.len().saturating_sub(MAX_SCOPES)) {
            scope.extend_from_slice(names);
        }
        let owner = one.owner.map(|name| Scope { name, is_type: true });
        scope.extend(owner.clone());
        // `typedef struct name {…} name;` is one type, not one inside another.
        let is_same =
            one.kind == Kind::Type && scope.pop_if(|scope| scope.is_type && scope.name == one.name).is_some();
        if matches!(one.kind, Kind::Type | Kind::Function | Kind::Scope) {
            let own = Scope { name: one.name.clone(), is_type: one.kind != Kind::Function };
            let names = owner.into_iter().chain([own]).filter(|_| !is_same).collect();
            around.push((one.bytes.end, one.kind, names));
        }
        if one.kind != Kind::Scope {
            places.push(SymbolPlace {
                name: one.name,
                offset: one.offset,
                scope,
                first: one.first,
                last: one.last,
                is_definition: one.kind != Kind::Call,
            });
        }
    }
    places
}

#[cfg(test)]
mod tests;
