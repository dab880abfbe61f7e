//! S-33: one scanner for everything that is written: diffs, names, messages, bodies, comments, trajectories,
//! logs.
//!
//! It knows the formats of tokens that identify themselves, and this process's own live secrets in every
//! spelling that a sandbox could give them. It does not guess: `password = "…"` is in half of all test
//! suites, and a gate that cries wolf is switched off.
//!
//! What a finding means depends on where it is. In text it is redacted and the text goes out; in a patch,
//! which nobody may rewrite, it blocks. There only names, added lines, and what is new in a binary file count,
//! since what the repository holds already is not ours to judge.

mod binary;
mod formats;
mod live;
mod markdown;
mod patch;

use std::{borrow::Cow, fmt, ops::Range};

use regex::bytes::Regex;
use secrecy::SecretString;

pub use formats::SecretKind;
pub use patch::PatchFinding;

/// Where something secret stands. Holds the place only, never the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: SecretKind,
    /// Bytes of what was scanned.
    pub range: Range<usize>,
}

/// Finds secrets. Building one compiles patterns; it is meant to be shared.
pub struct Scanner {
    live: Option<Regex>,
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").finish_non_exhaustive()
    }
}

impl Scanner {
    /// `live` are this process's own secrets. Those shorter than [`Scanner::MIN_LIVE_BYTES`] are left aside:
    /// they would be found everywhere.
    pub fn new(live: &[SecretString]) -> Self {
        Self { live: live::pattern(live) }
    }

    /// Shortest live secret that is looked for.
    pub const MIN_LIVE_BYTES: usize = 8;

    /// All secrets in order, overlapping ones made one.
    pub fn scan(&self, bytes: &[u8]) -> Vec<Finding> {
        let live = self.live.iter().flat_map(|pattern| pattern.find_iter(bytes));
        let mut found: Vec<Finding> =
            live.map(|hit| Finding { kind: SecretKind::Live, range: hit.range() }).collect();
        formats::find(bytes, &mut found);
        apart(found)
    }

    /// The text with each secret replaced by what it was, such as `[redacted: GitHub token]`.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.scan(text.as_bytes());
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for Finding { kind, range } in found {
            // All patterns are ASCII, but a live secret need not be.
            let start = text.floor_char_boundary(range.start);
            result.push_str(&text[done..start.max(done)]);
            result.push_str(&format!("[redacted: {kind}]"));
            done = text.ceil_char_boundary(range.end);
        }
        result.push_str(&text[done..]);
        Cow::Owned(result)
    }
}

/// In order, overlapping ones made one.
fn apart(mut found: Vec<Finding>) -> Vec<Finding> {
    // Our own secret is the worst of what is found in one place, so it comes first and names the rest.
    found.sort_by_key(|finding| (finding.range.start, finding.kind));
    let mut apart: Vec<Finding> = Vec::new();
    for finding in found {
        match apart.last_mut() {
            Some(last) if finding.range.start < last.range.end => {
                last.range.end = last.range.end.max(finding.range.end);
                last.kind = last.kind.min(finding.kind);
            }
            _ => apart.push(finding),
        }
    }
    apart
}

#[cfg(test)]
mod tests;
