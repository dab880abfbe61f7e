//! Evidence: what an answer cites and names is looked up in the commit, by the host.
//!
//! A citation is *verified* when the cited range (at most 80 lines) exists in that file and inside it
//! stands the quote (at least 12 characters that are not space, white space folded) or the symbol is
//! defined or called. It is *moved* when that holds not there but at exactly one other place of the
//! file; the range is then corrected. Everything else is *unverified*.
//!
//! Invariant: nothing false is shown beside a verified mark. Where only one of quote and symbol holds,
//! the other is dropped from the citation; and of a quote that holds, the file's own lines are shown.

mod quote;
mod symbol;

use serde::{Deserialize, Serialize};

use crate::{
    domain::{Check, Citation, RepoPath},
    method::ports::{SourceError, SourceTree, Symbols},
};
use quote::Quote;
use symbol::Symbol;

/// Longest range that a citation may have, in lines.
pub const MAX_RANGE_LINES: u32 = 80;
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
    /// The citation holds by its symbol alone: the quote beside it does not stand there.
    pub quote_dropped: bool,
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
    let cited = cited_lines(&claim, &lines);
    let quote = claim.quote.as_deref().and_then(Quote::parse);
    let symbol = claim.symbol.as_deref().and_then(Symbol::parse);
    let places = symbol.as_ref().and_then(|_| symbols.places(path, bytes));
    let symbol_at = symbol.as_ref().zip(places.as_ref()).map(|(wanted, places)| {
        let mine = places.iter().filter(|place| wanted.names(place, path, bytes));
        mine.map(|place| (place.first, place.last)).collect::<Vec<Lines>>()
    });
    // A symbol stands where its name stands: on the first of its lines.
    let stands_in = |(first, last): Lines| {
        symbol_at.as_ref().is_some_and(|all| all.iter().any(|at| first <= at.0 && at.0 <= last))
    };
    let named = symbol.as_ref().map(|symbol| symbol.text);

    if let Some(cited) = cited {
        let quoted = quote.as_ref().and_then(|quote| Some(quote.own_text(cited, quote.place(cited)?)));
        let range = (claim.start, claim.end);
        let named = named.filter(|_| stands_in(range)).map(str::to_owned);
        if quoted.is_some() || named.is_some() {
            return found(claim, range, Check::Verified, quoted, named);
        }
    }
    let quote_at = quote.as_ref().map(|quote| quote.places(&lines, MAX_RANGE_LINES));
    if let Some((quote, &[at])) = quote.as_ref().zip(quote_at.as_deref()) {
        let named = named.filter(|_| stands_in(at)).map(str::to_owned);
        return found(claim, at, Check::Moved, Some(quote.own_text(&lines, at)), named);
    }
    if let Some(&[(first, last)]) = symbol_at.as_deref()
        && let Some((wanted, places)) = symbol.as_ref().zip(places)
    {
        let read = places.iter().filter(|place| place.name == wanted.name && wanted.is_decided(place, bytes));
        let read = read.map(|place| place.first).collect();
        if wanted.may_stand_elsewhere(&lines, &read) {
            return unverified(claim, Fault::SeveralPlaces);
        }
        let last = last.min(first + MAX_RANGE_LINES - 1);
        let named = named.map(str::to_owned);
        return found(claim, (first, last), Check::Moved, None, named);
    }
    let fault = match quote_at.iter().chain(&symbol_at).map(Vec::len).max() {
        None if cited.is_none() => Fault::BadRange,
        None => Fault::NothingToCheck,
        Some(0) => Fault::NotInFile,
        Some(_) => Fault::SeveralPlaces,
    };
    unverified(claim, fault)
}

/// `None` for a range that the file does not have, that runs backwards, or that is too long.
fn cited_lines<'a, 'b>(claim: &Claim, lines: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let before = claim.start.checked_sub(1)? as usize;
    let cited = lines.get(before..claim.end as usize)?;
    (1..=MAX_RANGE_LINES as usize).contains(&cited.len()).then_some(cited)
}

fn found(
    claim: Claim,
    (start, end): Lines,
    check: Check,
    quote: Option<String>,
    symbol: Option<String>,
) -> Checked {
    let quote_dropped = quote.is_none() && claim.quote.as_deref().and_then(Quote::parse).is_some();
    let citation = Citation { path: claim.path, start, end, quote, symbol, check, permalink: None };
    Checked { citation, fault: None, quote_dropped }
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
    Checked { citation, fault: Some(fault), quote_dropped: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::ports::{Scope, SymbolPlace};

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

    /// Of a name that stands once in its line.
    fn offset(name: &str, line: u32) -> usize {
        let before: usize = FILE.split_inclusive('\n').take(line as usize - 1).map(str::len).sum();
        before + FILE[before..].find(name).unwrap()
    }

    struct Python;
    impl Symbols for Python {
        fn places(&self, path: &RepoPath, _: &[u8]) -> Option<Vec<SymbolPlace>> {
            let place = |name: &str, scope: &[&str], first, last, is_definition| SymbolPlace {
                name: name.into(),
                offset: offset(name, first),
                scope: scope
                    .iter()
                    .map(|name| Scope { name: (*name).into(), is_type: *name == "Store" })
                    .collect(),
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
                    place("close", &["close"], 12, 12, false),
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
    fn what_is_shown_of_a_quote_are_the_files_own_lines() {
        let quote = |checked: Checked| checked.citation.quote.unwrap();
        let own = "        return os.open(path,\n                       os.O_RDONLY)";
        assert_eq!(quote(ask(4, 6, Some("os.open(path,\u{b}os.O_RDONLY"), None)), own, "within the range");
        assert_eq!(quote(ask(1, 1, Some("return os.open(path, os.O_RDONLY)"), None)), own, "moved");
        let file = "# return everything_is_allowed(user)\nif not is_valid_user(user):\n";
        let shown = |file: &str, quote: &str| {
            let claim =
                Claim { path: "a.py".into(), start: 1, end: 1, quote: Some(quote.into()), symbol: None };
            look_up(claim, &RepoPath::parse("a.py").unwrap(), file.as_bytes(), &Python)
                .citation
                .quote
                .unwrap()
        };
        assert_eq!(shown(file, "return everything_is_allowed(user)"), "# return everything_is_allowed(user)");
        assert_eq!(shown(file, "is_valid_user(user)"), "if not is_valid_user(user):");
        let long = format!("x = [{}]", "12345, ".repeat(1_000));
        assert_eq!(
            shown(&long, "12345,\u{2028}12345,"),
            "12345, 12345,",
            "of a very long line, the quote alone"
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
        assert_eq!(lines(&ask(1, 2, None, Some("os.close"))), (Check::Moved, 12, 12));
        assert_eq!(ask(1, 2, None, Some("close")).fault, Some(Fault::SeveralPlaces));
        assert_eq!(ask(4, 6, None, Some("reopen")).fault, Some(Fault::NotInFile));
    }

    #[test]
    fn what_does_not_hold_is_not_shown_beside_a_verified_mark() {
        let checked = ask(8, 9, Some("def open(path, mode):"), Some("open"));
        assert_eq!((checked.quote_dropped, checked.citation.quote), (true, None));
        assert_eq!(checked.citation.check, Check::Verified);
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
        let path = RepoPath::parse("a.txt").unwrap();
        let checked = look_up(claim.clone(), &path, b"caf\xe9 au lait 1234\n", &Python);
        assert_eq!(checked.citation.check, Check::Verified);
        // But no quote holds by what could be any byte.
        let any = Claim { quote: Some("\u{fffd}".repeat(20)), ..claim };
        let checked = look_up(any, &path, &[0xFF; 40], &Python);
        assert_eq!(checked.fault, Some(Fault::NothingToCheck));
    }

    #[test]
    fn a_quote_that_no_range_can_hold_is_no_place() {
        let long: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let path = RepoPath::parse("a.txt").unwrap();
        let claim =
            Claim { path: "a.txt".into(), start: 1, end: 80, quote: Some(long.clone()), symbol: None };
        assert_eq!(look_up(claim, &path, long.as_bytes(), &Python).fault, Some(Fault::NotInFile));
    }

    #[test]
    fn endless_repetition_costs_little() {
        let file = format!("{}\n", "a ".repeat(50_000)).repeat(20);
        let path = RepoPath::parse("a.txt").unwrap();
        let quote = Some("a ".repeat(40_000));
        let claim = Claim { path: "a.txt".into(), start: 30, end: 40, quote, symbol: None };
        assert_eq!(look_up(claim, &path, file.as_bytes(), &Python).fault, Some(Fault::SeveralPlaces));
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
                let fold = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                proptest::prop_assert!(fold(&cited.join("\n")).contains(&fold(&quote)));
            }
        }
    }
}
