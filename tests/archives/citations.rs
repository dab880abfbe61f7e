//! No citation is called verified or moved that is not. `scripts/prove evidence` does the same at length.
//!
//! The judge here is written from the contract: the quote, white space folded, stands in the lines that are
//! shown, which are 80 at most; what was moved stands nowhere else.

use acquire::{
    domain::{Check, RepoPath},
    index::SourceSymbols,
    method::{
        evidence::{Checked, Claim, check},
        ports::SourceTree,
    },
    repo::{CommitTree, Mirror, Settings, Source},
};

use crate::released;

/// Claims are made about so many places of a file, or fewer.
const PLACES: usize = 12;

#[derive(Default, Debug)]
struct Counts {
    verified: usize,
    moved: usize,
    unverified: usize,
}

#[tokio::test]
async fn citations_of_released_code_are_verified_or_moved_exactly_when_they_hold() {
    let mut counts = Counts::default();
    let mirrors = tempfile::tempdir().unwrap();
    for (registry, name, version) in
        [("pypi", "blinker", "1.8.0"), ("crates", "itoa", "1.0.11"), ("crates", "semver", "1.0.23")]
    {
        let folder = released(registry, name, version);
        let settings = Settings::new(mirrors.path().join(name));
        let tree = Mirror::open(Source::Folder(folder), settings).await.unwrap().at(None).await.unwrap();
        for entry in tree.entries().await.unwrap().iter() {
            let path = RepoPath::from_bytes(&entry.path).unwrap();
            let bytes = tree.read(&path, 1 << 20).await.unwrap().unwrap();
            if let Ok(text) = String::from_utf8(bytes) {
                File { tree: &tree, path, lines: text.lines().map(str::to_owned).collect() }
                    .claims(&mut counts)
                    .await;
            }
        }
    }
    assert!(counts.verified > 250 && counts.moved > 250 && counts.unverified > 1_000, "{counts:?}");
}

struct File<'a> {
    tree: &'a CommitTree,
    path: RepoPath,
    lines: Vec<String>,
}

impl File<'_> {
    async fn claims(&self, counts: &mut Counts) {
        for at in (0..self.lines.len()).step_by((self.lines.len() / PLACES).max(5)) {
            let end = (at + at % 3 + 1).min(self.lines.len());
            let quote = self.lines[at..end].join("\n");
            let (first, last) = (at + 1, end);
            // A quote that begins or ends with an empty line says nothing of that line.
            if solid(&quote) < 12 || solid(&self.lines[at]) == 0 || solid(&self.lines[end - 1]) == 0 {
                continue;
            }
            let found = self.look_up(first, last, Some(&quote), None, counts).await;
            assert_eq!(found, (Check::Verified, first, last), "{}: {quote}", self.path);
            // Somewhere else in the file, then far behind its end.
            for start in [(at + 40) % self.lines.len() + 1, self.lines.len() + 5] {
                let found = self.look_up(start, start, Some(&quote), None, counts).await;
                let is_there = (first..=last).contains(&start) && first == last;
                let one_place = self.places(&quote) == [(first, last)];
                if one_place && !is_there {
                    assert_eq!(found, (Check::Moved, first, last), "{}: {quote}", self.path);
                }
            }
            self.forgeries(first, last, &quote, counts).await;
        }
        self.symbols(counts).await;
    }

    async fn forgeries(&self, first: usize, last: usize, quote: &str, counts: &mut Counts) {
        let middle = quote.char_indices().map(|(at, _)| at).nth(quote.chars().count() / 2).unwrap();
        let other = if quote[middle..].starts_with('z') { 'y' } else { 'z' };
        let after = middle + quote[middle..].chars().next().unwrap().len_utf8();
        let next = &self.lines[(last + 3) % self.lines.len()];
        for forged in [
            format!("{}{other}{}", &quote[..middle], &quote[after..]),
            format!("{}{}", &quote[..middle], &quote[after..]),
            format!("{} ... {}", &quote[..middle], &quote[after..]),
            format!("{quote}\n{next}"),
            quote.to_uppercase(),
            "this stands in no released file of the world".to_owned(),
        ] {
            let found = self.look_up(first, last, Some(&forged), None, counts).await;
            if self.places(&forged).is_empty() {
                assert_eq!(found.0, Check::Unverified, "{}: {forged}", self.path);
            }
        }
    }

    /// Functions by how their definitions begin, which is enough for these files.
    async fn symbols(&self, counts: &mut Counts) {
        let language = self.path.as_str().rsplit('.').next().unwrap();
        let keyword = match language {
            "py" => "def ",
            "rs" => "fn ",
            _ => return,
        };
        // What stands in a macro's body is text until it is used.
        if self.lines.iter().any(|line| line.contains("macro_rules!")) {
            return;
        }
        for (number, line) in (1..).zip(&self.lines) {
            let code = line.trim_start().trim_start_matches("pub ").trim_start_matches("const ");
            let Some(rest) = code.strip_prefix(keyword) else { continue };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let found = self.look_up(number, number, None, Some(&name), counts).await;
            assert_eq!(found, (Check::Verified, number, number), "{}: {name}", self.path);
            for forged in [format!("{name}_x"), format!("NoSuchScope.{name}"), name.to_uppercase()] {
                let found = self.look_up(number, number, None, Some(&forged), counts).await;
                assert_eq!(found.0, Check::Unverified, "{}: {forged}", self.path);
            }
        }
    }

    /// What the host makes of a claim, after the judge has had its word.
    async fn look_up(
        &self,
        start: usize,
        end: usize,
        quote: Option<&str>,
        symbol: Option<&str>,
        counts: &mut Counts,
    ) -> (Check, usize, usize) {
        let claim = Claim {
            path: self.path.to_string(),
            start: start.try_into().unwrap(),
            end: end.try_into().unwrap(),
            quote: quote.map(str::to_owned),
            symbol: symbol.map(str::to_owned),
        };
        let Checked { citation, fault, .. } = check(claim, self.tree, &SourceSymbols).await.unwrap();
        let shown = (usize::try_from(citation.start).unwrap(), usize::try_from(citation.end).unwrap());
        let holds = citation.check != Check::Unverified;
        assert_eq!(holds, fault.is_none());
        if holds {
            assert!(
                1 <= shown.0 && shown.0 <= shown.1 && shown.1 <= self.lines.len(),
                "{}: {shown:?}",
                self.path
            );
            assert!(shown.1 - shown.0 < 80, "{}: {shown:?}", self.path);
            let lines = self.lines[shown.0 - 1..shown.1].join("\n");
            let quote_stands = citation.quote.as_deref().map(|q| fold(&lines).contains(&fold(q)));
            let symbol_stands = citation.symbol.as_deref().map(|symbol| lines.contains(symbol));
            assert!(
                [quote_stands, symbol_stands].into_iter().flatten().all(|stands| stands),
                "{}:{shown:?} is called {:?}: {quote:?} {symbol:?}",
                self.path,
                citation.check
            );
            assert!(quote_stands.or(symbol_stands).is_some());
        }
        match citation.check {
            Check::Verified => counts.verified += 1,
            Check::Moved => {
                counts.moved += 1;
                if let Some(quote) = quote {
                    assert_eq!(self.places(quote), [shown], "{}: {quote}", self.path);
                }
            }
            Check::Unverified => counts.unverified += 1,
        }
        (citation.check, shown.0, shown.1)
    }

    /// The fewest lines that hold the quote, for each place where it stands.
    fn places(&self, quote: &str) -> Vec<(usize, usize)> {
        let wanted = fold(quote);
        let Some(begin) = wanted.split(' ').next() else { return Vec::new() };
        let holds = |first: usize, last: usize| fold(&self.lines[first..=last].join("\n")).contains(&wanted);
        let mut places = Vec::new();
        for first in (0..self.lines.len()).filter(|first| self.lines[*first].contains(begin)) {
            // A place has as many lines as the quote, and empty ones between them.
            let most = (first + quote.lines().count() + 5).min(self.lines.len());
            let Some(last) = (first..most).find(|last| holds(first, *last)) else { continue };
            if first == last || !holds(first + 1, last) {
                places.push((first + 1, last + 1));
            }
        }
        places
    }
}

fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn solid(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}
