//! Evidence: what an answer cites and names is looked up in the commit, by the host.
//!
//! A citation is *verified* when the cited range (at most 80 lines) exists in that file and inside it
//! stands the quote (at least 12 characters that are not space, white space folded) or the symbol is
//! defined or called. It is *moved* when that holds not there but at exactly one other place of the
//! file; the range is then corrected. Everything else is *unverified*.
//!
//! Invariant: nothing false is shown beside a verified mark. Where only one of quote and symbol holds,
//! the other is dropped from the citation.

use serde::{Deserialize, Serialize};

use crate::{
    domain::{Check, Citation, RepoPath},
    method::ports::{SourceError, SourceTree, SymbolPlace, Symbols},
};

/// Longest range that a citation may have, in lines.
pub const MAX_RANGE_LINES: u32 = 80;
/// Fewest characters that are not space in a quote.
pub const MIN_QUOTE_CHARS: usize = 12;
/// Larger files are not looked into, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A citation as a model gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub path: String,
    pub start: u32,
    pub end: u32,
    #[serde(default)]
    pub quote: Option<String>,
    #[serde(default)]
    pub symbol: Option<String>,
}

/// Why a citation does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    NotAPath,
    NoSuchFile,
    /// Larger than 4 MiB.
    TooLarge,
    /// The range does not exist, runs backwards or is longer than 80 lines, and nothing else identifies the place.
    BadRange,
    /// Neither a quote of 12 characters nor a symbol was given.
    NothingToCheck,
    /// Neither quote nor symbol stands in the file.
    NotInFile,
    /// Not in the range, but at several other places.
    SeveralPlaces,
}

/// A claim with what the host found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub citation: Citation,
    /// Set exactly when the citation is unverified.
    pub fault: Option<Fault>,
}

/// Looks one claim up.
pub async fn check(
    claim: Claim,
    tree: &dyn SourceTree,
    symbols: &dyn Symbols,
) -> Result<Checked, SourceError> {
    let Ok(path) = RepoPath::parse(claim.path.strip_prefix("./").unwrap_or(&claim.path)) else {
        return Ok(unverified(claim, Fault::NotAPath));
    };
    let claim = Claim { path: path.to_string(), ..claim };
    let bytes = match tree.read(&path, MAX_FILE_BYTES).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(unverified(claim, Fault::NoSuchFile)),
        Err(SourceError::Limit(_)) => return Ok(unverified(claim, Fault::TooLarge)),
        Err(other) => return Err(other),
    };
    Ok(look_up(claim, &path, &bytes, symbols))
}

/// An inclusive range of lines, counted from 1.
type Lines = (u32, u32);

fn look_up(claim: Claim, path: &RepoPath, bytes: &[u8], symbols: &dyn Symbols) -> Checked {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let line_count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let range = (claim.start, claim.end);
    let range_holds = (1..=line_count).contains(&claim.start)
        && (claim.start..=line_count).contains(&claim.end)
        && claim.end - claim.start < MAX_RANGE_LINES;
    let inside = |at: &Lines| range_holds && range.0 <= at.0 && at.1 <= range.1;

    let quote = claim.quote.as_deref().map(fold).filter(|q| solid_chars(q) >= MIN_QUOTE_CHARS);
    let symbol = claim.symbol.as_deref().map(Symbol::parse).filter(|s| !s.name.is_empty());
    let quote_at = quote.map(|q| occurrences(&text, &q));
    let symbol_at = symbol.as_ref().and_then(|wanted| {
        let places = symbols.places(path, bytes)?;
        Some(places.iter().filter(|p| wanted.names(p, path, &lines)).map(extent).collect::<Vec<Lines>>())
    });
    // A symbol stands where its name stands: the first line of its extent.
    let name_line = |at: &Lines| (at.0, at.0);

    let quote_holds = quote_at.as_ref().is_some_and(|all| all.iter().any(inside));
    let symbol_holds = symbol_at.as_ref().is_some_and(|all| all.iter().map(name_line).any(|at| inside(&at)));
    if quote_holds || symbol_holds {
        return found(claim, range, Check::Verified, quote_holds, symbol_holds);
    }
    let one = |all: &Option<Vec<Lines>>| match all.as_deref() {
        Some([only]) => Some(*only),
        _ => None,
    };
    if let Some(at) = one(&quote_at) {
        let symbol_too = symbol_at.is_some_and(|all| all.iter().any(|s| at.0 <= s.0 && s.0 <= at.1));
        return found(claim, at, Check::Moved, true, symbol_too);
    }
    if let Some((first, last)) = one(&symbol_at) {
        let last = last.min(first + MAX_RANGE_LINES - 1);
        return found(claim, (first, last), Check::Moved, false, true);
    }
    let places = quote_at.iter().chain(&symbol_at).map(Vec::len).max();
    let fault = match places {
        None if !range_holds => Fault::BadRange,
        None => Fault::NothingToCheck,
        Some(0) => Fault::NotInFile,
        Some(_) => Fault::SeveralPlaces,
    };
    unverified(claim, fault)
}

fn found(claim: Claim, (start, end): Lines, check: Check, keep_quote: bool, keep_symbol: bool) -> Checked {
    let citation = Citation {
        path: claim.path,
        start,
        end,
        quote: claim.quote.filter(|_| keep_quote),
        symbol: claim.symbol.filter(|_| keep_symbol),
        check,
        permalink: None,
    };
    Checked { citation, fault: None }
}

fn unverified(claim: Claim, fault: Fault) -> Checked {
    let citation = Citation {
        path: claim.path,
        start: claim.start,
        end: claim.end,
        quote: claim.quote,
        symbol: claim.symbol,
        check: Check::Unverified,
        permalink: None,
    };
    Checked { citation, fault: Some(fault) }
}

/// Runs of white space become one space; none at the ends.
fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn solid_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Where `quote` (folded) stands in `text`, white space folded.
fn occurrences(text: &str, quote: &str) -> Vec<Lines> {
    let mut folded = String::with_capacity(text.len());
    // Byte offset in `folded` where each word begins, and the line it is on.
    let mut words: Vec<(usize, u32)> = Vec::new();
    for (line, content) in (1u32..).zip(text.lines()) {
        for word in content.split_whitespace() {
            if !folded.is_empty() {
                folded.push(' ');
            }
            words.push((folded.len(), line));
            folded.push_str(word);
        }
    }
    let line_at = |offset: usize| words[words.partition_point(|(start, _)| *start <= offset) - 1].1;
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(found) = folded[from..].find(quote) {
        let start = from + found;
        all.push((line_at(start), line_at(start + quote.len() - 1)));
        // Overlapping occurrences count too: each makes the place less certain.
        from = start + folded[start..].chars().next().map_or(1, char::len_utf8);
    }
    all.dedup();
    all
}

/// A symbol as a model writes it: `parse`, `Parser.parse`, `parser::Parser::parse()`.
struct Symbol {
    scope: Vec<String>,
    name: String,
}

impl Symbol {
    fn parse(text: &str) -> Self {
        let text = text.trim().trim_matches('`');
        let text = text.split(['(', '<']).next().unwrap_or_default().trim_end_matches('!');
        let mut parts: Vec<String> =
            text.split([':', '.', '#', '/']).filter(|p| !p.is_empty()).map(|p| p.trim().to_owned()).collect();
        let name = parts.pop().unwrap_or_default();
        Self { scope: parts, name }
    }

    /// Whether `place` is this symbol. Where a scope was named it must be seen: around the place, as the
    /// file's module, or (for a call) on the same line. A name alone is not enough then, since other
    /// classes have methods of that name.
    fn names(&self, place: &SymbolPlace, path: &RepoPath, lines: &[&str]) -> bool {
        if self.name != place.name {
            return false;
        }
        let Some(wanted) = self.scope.last() else {
            return true;
        };
        let is_module = path.as_str().split('/').any(|part| part.split('.').next() == Some(wanted));
        if place.is_definition {
            place.scope.last().map_or(is_module, |around| around == wanted)
        } else {
            let line = lines.get(place.first as usize - 1).copied().unwrap_or_default();
            let on_line = line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == wanted);
            on_line || place.scope.contains(wanted) && called_on_itself(line, &self.name)
        }
    }
}

/// Whether `name` stands in `line` without a receiver, or with the enclosing object as its receiver.
fn called_on_itself(line: &str, name: &str) -> bool {
    const ITSELF: [&str; 8] =
        ["self.", "self::", "Self::", "this.", "this->", "cls.", "super().", "static::"];
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].trim_end();
        ITSELF.iter().any(|receiver| before.ends_with(receiver)) || !before.ends_with(['.', ':', '>'])
    })
}

fn extent(place: &SymbolPlace) -> Lines {
    (place.first, place.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
import os

class Store:
    def open(self, path):
        return os.open(path,
                       os.O_RDONLY)

def open(path):
    return Store().open(path)

def close(handle):
    os.close(handle)
    log(\"closed the handle\")
    log(\"closed the handle\")
";

    struct Python;
    impl Symbols for Python {
        fn places(&self, path: &RepoPath, _: &[u8]) -> Option<Vec<SymbolPlace>> {
            let place = |name: &str, scope: &[&str], first, last, is_definition| SymbolPlace {
                name: name.into(),
                scope: scope.iter().map(|s| (*s).to_owned()).collect(),
                first,
                last,
                is_definition,
            };
            path.as_str().ends_with(".py").then(|| {
                vec![
                    place("Store", &[], 3, 6, true),
                    place("open", &["Store"], 4, 6, true),
                    place("open", &["Store", "open"], 5, 5, false),
                    place("open", &[], 8, 9, true),
                    place("Store", &["open"], 9, 9, false),
                    place("open", &["open"], 9, 9, false),
                    place("close", &[], 11, 14, true),
                ]
            })
        }
    }

    fn ask(start: u32, end: u32, quote: Option<&str>, symbol: Option<&str>) -> Checked {
        let claim = Claim {
            path: "store.py".into(),
            start,
            end,
            quote: quote.map(Into::into),
            symbol: symbol.map(Into::into),
        };
        look_up(claim, &RepoPath::parse("store.py").unwrap(), FILE.as_bytes(), &Python)
    }

    fn lines(checked: &Checked) -> (Check, u32, u32) {
        (checked.citation.check, checked.citation.start, checked.citation.end)
    }

    #[test]
    fn a_quote_inside_the_range_is_verified_with_white_space_folded() {
        assert_eq!(
            lines(&ask(4, 6, Some("return os.open(path, os.O_RDONLY)"), None)),
            (Check::Verified, 4, 6)
        );
    }

    #[test]
    fn a_quote_at_exactly_one_other_place_moves_the_range() {
        assert_eq!(
            lines(&ask(11, 12, Some("return os.open(path,\n os.O_RDONLY)"), None)),
            (Check::Moved, 5, 6)
        );
        // Half in the range is not in the range.
        assert_eq!(lines(&ask(5, 5, Some("return os.open(path, os.O_RDONLY)"), None)), (Check::Moved, 5, 6));
        // A range that does not exist is no reason to lose a quote that does.
        assert_eq!(lines(&ask(400, 410, Some("return Store().open(path)"), None)), (Check::Moved, 9, 9));
        assert_eq!(lines(&ask(9, 8, Some("return Store().open(path)"), None)), (Check::Moved, 9, 9));
        assert_eq!(lines(&ask(0, 9, Some("return Store().open(path)"), None)), (Check::Moved, 9, 9));
    }

    #[test]
    fn a_quote_at_several_other_places_is_unverified() {
        assert_eq!(ask(1, 3, Some("log(\"closed the handle\")"), None).fault, Some(Fault::SeveralPlaces));
        assert_eq!(lines(&ask(13, 13, Some("log(\"closed the handle\")"), None)), (Check::Verified, 13, 13));
    }

    #[test]
    fn an_invented_or_short_quote_is_unverified() {
        assert_eq!(ask(4, 6, Some("return os.open(path, os.O_RDWR)"), None).fault, Some(Fault::NotInFile));
        assert_eq!(ask(1, 1, Some("import os"), None).fault, Some(Fault::NothingToCheck));
        assert_eq!(ask(1, 1, None, None).fault, Some(Fault::NothingToCheck));
        assert_eq!(ask(1, 400, None, None).fault, Some(Fault::BadRange));
    }

    #[test]
    fn a_symbol_is_verified_where_it_is_defined_or_called_and_its_scope_counts() {
        assert_eq!(lines(&ask(4, 4, None, Some("Store.open"))), (Check::Verified, 4, 4));
        assert_eq!(lines(&ask(8, 8, None, Some("open()"))), (Check::Verified, 8, 8));
        assert_eq!(lines(&ask(9, 9, None, Some("Store.open"))), (Check::Verified, 9, 9));
        // `os.open` inside `Store.open` is another's `open`, and so is the module's.
        assert_eq!(ask(8, 8, None, Some("Store.open")).fault, Some(Fault::SeveralPlaces));
        assert_eq!(ask(5, 5, None, Some("Store.open")).fault, Some(Fault::SeveralPlaces));
        assert_eq!(lines(&ask(8, 8, None, Some("store.open"))), (Check::Verified, 8, 8));
        assert_eq!(ask(8, 9, None, Some("Archive.open")).fault, Some(Fault::NotInFile));
        assert_eq!(lines(&ask(1, 2, None, Some("close"))), (Check::Moved, 11, 14));
        assert_eq!(ask(4, 6, None, Some("reopen")).fault, Some(Fault::NotInFile));
    }

    #[test]
    fn what_does_not_hold_is_not_shown_beside_a_verified_mark() {
        let checked = ask(8, 9, Some("def open(path, mode):"), Some("open"));
        assert_eq!((checked.citation.check, checked.citation.quote), (Check::Verified, None));
        let checked = ask(8, 9, Some("return Store().open(path)"), Some("close"));
        assert_eq!((checked.citation.check, checked.citation.symbol), (Check::Verified, None));
    }

    #[test]
    fn a_range_of_more_than_eighty_lines_is_never_verified() {
        let long = format!("{}needle_in_the_hay = 1\n", "x = 1\n".repeat(100));
        let claim = |start, end| Claim {
            path: "a.txt".into(),
            start,
            end,
            quote: Some("needle_in_the_hay = 1".into()),
            symbol: None,
        };
        let path = RepoPath::parse("a.txt").unwrap();
        let wide = look_up(claim(20, 101), &path, long.as_bytes(), &Python);
        assert_eq!(lines(&wide), (Check::Moved, 101, 101));
        let eighty = look_up(claim(22, 101), &path, long.as_bytes(), &Python);
        assert_eq!(lines(&eighty), (Check::Verified, 22, 101));
    }

    #[test]
    fn quotes_of_files_that_are_not_utf_8_are_compared_as_the_model_saw_them() {
        let claim = Claim {
            path: "a.txt".into(),
            start: 1,
            end: 1,
            quote: Some("caf\u{fffd} au lait 1234".into()),
            symbol: None,
        };
        let checked = look_up(claim, &RepoPath::parse("a.txt").unwrap(), b"caf\xe9 au lait 1234\n", &Python);
        assert_eq!(checked.citation.check, Check::Verified);
    }

    proptest::proptest! {
        #[test]
        fn verified_and_moved_always_hold(start in 0u32..20, end in 0u32..20, from in 0usize..200, len in 1usize..60) {
            let chars: Vec<char> = FILE.chars().collect();
            let quote: String = chars.iter().skip(from).take(len).collect();
            let checked = ask(start, end, Some(&quote), None);
            if checked.citation.check != Check::Unverified {
                let cited: Vec<&str> = FILE
                    .lines()
                    .skip(checked.citation.start as usize - 1)
                    .take((checked.citation.end - checked.citation.start + 1) as usize)
                    .collect();
                proptest::prop_assert!(fold(&cited.join("\n")).contains(&fold(&quote)));
            }
        }
    }
}
