//! Secrets in files that a diff does not show as lines.

use std::collections::BTreeSet;

use super::Scanner;

impl Scanner {
    /// Whether `content` holds a secret that `base`, the file before the change, does not; `base` is empty
    /// where there was none. Answers for binary files alone: all that is new in others is an added line.
    pub fn adds_in_binary(&self, content: &[u8], base: &[u8]) -> bool {
        if !is_binary(content) && !is_binary(base) {
            return false;
        }
        let mut new = self.secrets(content);
        if !new.is_empty() {
            let known = self.secrets(base);
            new.retain(|secret| !known.contains(secret));
        }
        !new.is_empty()
    }

    /// The secrets themselves, of the content as it is and read as UTF-16.
    fn secrets(&self, content: &[u8]) -> BTreeSet<Vec<u8>> {
        let shifted = content.get(1..).unwrap_or_default();
        let low_first = |pair: &[u8]| (pair[1] == 0).then_some(pair[0]);
        let high_first = |pair: &[u8]| (pair[0] == 0).then_some(pair[1]);
        let mut secrets = BTreeSet::new();
        for reading in [
            content,
            &wide(content, low_first),
            &wide(content, high_first),
            &wide(shifted, low_first),
            &wide(shifted, high_first),
        ] {
            secrets.extend(self.scan(reading).into_iter().map(|found| reading[found.range].to_vec()));
        }
        secrets
    }
}

/// Git encodes a file with a NUL among its first 8,000 bytes, before or after the change. Here the whole file
/// counts, so that nothing is between the two.
fn is_binary(content: &[u8]) -> bool {
    content.contains(&0)
}

/// The ASCII in UTF-16; every other unit is a line end.
fn wide(content: &[u8], ascii: impl Fn(&[u8]) -> Option<u8>) -> Vec<u8> {
    content.chunks_exact(2).map(|pair| ascii(pair).unwrap_or(b'\n')).collect()
}
