//! Secrets in a diff: in added lines and in names.

use super::{Scanner, SecretKind};

/// Where in a patch something secret stands. Holds the place only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFinding {
    pub kind: SecretKind,
    /// The file as the diff names it, itself redacted.
    pub path: String,
    /// Line of the new file, from 1; `None` where the name holds the secret.
    pub line: Option<u32>,
}

/// The added lines of one file, without their marks: a key reaches over several.
#[derive(Default)]
struct Added {
    text: Vec<u8>,
    /// Where a line starts in `text`, and its number in the new file.
    lines: Vec<(usize, u32)>,
}

impl Scanner {
    /// Scans a diff in git's format. Content of binary files is encoded there and not seen: for that there is
    /// [`Scanner::adds_in_binary`].
    pub fn scan_patch(&self, diff: &[u8]) -> Vec<PatchFinding> {
        let mut found = Vec::new();
        let mut path = String::new();
        let mut added = Added::default();
        let mut next_line = 0;
        // Lines that the current hunk still has, old and new.
        let mut left = (0u32, 0u32);
        for line in diff.split(|byte| *byte == b'\n') {
            if left != (0, 0) {
                match line.first() {
                    Some(b'+') => {
                        added.lines.push((added.text.len(), next_line));
                        added.text.extend_from_slice(&line[1..]);
                        added.text.push(b'\n');
                        next_line += 1;
                        left.1 = left.1.saturating_sub(1);
                    }
                    Some(b'-') => left.0 = left.0.saturating_sub(1),
                    Some(b'\\') => {}
                    _ => {
                        next_line += 1;
                        left = (left.0.saturating_sub(1), left.1.saturating_sub(1));
                    }
                }
            } else if let Some((old, first, new)) = hunk(line) {
                left = (old, new);
                next_line = first;
            } else if line.starts_with(b"diff --git ") {
                self.added(&mut added, &path, &mut found);
                // `a/NAME b/NAME`; the lines after it name the file without doubt, but need not be there.
                let names = &line[b"diff --git ".len()..];
                let new = names.windows(3).rposition(|part| part == b" b/").map_or(0, |at| at + 1);
                path = self.name(&names[new..], &mut found);
            } else if [&b"+++ "[..], b"rename to ", b"copy to "].iter().any(|mark| line.starts_with(mark)) {
                let name = line.splitn(3, |byte| *byte == b' ').last().unwrap_or_default();
                let name = if line.starts_with(b"+++ ") { &line[4..] } else { name };
                if name != b"/dev/null" {
                    path = self.name(name, &mut Vec::new());
                }
            }
        }
        self.added(&mut added, &path, &mut found);
        found
    }

    /// A name for people; a secret in it is found and redacted.
    fn name(&self, name: &[u8], found: &mut Vec<PatchFinding>) -> String {
        let text = String::from_utf8_lossy(name);
        let text = text.trim_matches('"');
        let shown = self.redact(text.strip_prefix("b/").unwrap_or(text)).into_owned();
        for finding in self.scan(name) {
            found.push(PatchFinding { kind: finding.kind, path: shown.clone(), line: None });
        }
        shown
    }

    fn added(&self, added: &mut Added, path: &str, found: &mut Vec<PatchFinding>) {
        for finding in self.scan(&added.text) {
            let line = added.lines.partition_point(|(start, _)| *start <= finding.range.start);
            let line = line.checked_sub(1).map(|at| added.lines[at].1);
            found.push(PatchFinding { kind: finding.kind, path: path.to_owned(), line });
        }
        *added = Added::default();
    }
}

/// Old lines, first new line and new lines of `@@ -a,b +c,d @@`.
fn hunk(line: &[u8]) -> Option<(u32, u32, u32)> {
    let text = std::str::from_utf8(line.strip_prefix(b"@@ -")?.split(|byte| *byte == b'@').next()?).ok()?;
    let (old, new) = text.trim().split_once(" +")?;
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok());
    let first = new.split(',').next()?.parse().ok()?;
    Some((count(old)?, first, count(new)?))
}
