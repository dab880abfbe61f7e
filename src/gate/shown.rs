//! Names and amounts as people can read them, whatever bytes they are made of.

use std::fmt::Write;

use super::sanitize::is_invisible;

/// Longest name that is shown, in characters.
const MAX_CHARS: usize = 300;

/// A path with bytes that are no UTF-8 as `\xNN`, and control and invisible characters as `\u{…}`.
pub fn path(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        push(&mut shown, chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02X}");
        }
    }
    if let Some((end, _)) = shown.char_indices().nth(MAX_CHARS) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// Text with characters that nobody sees spelled out, as `\u{…}`; line ends and tabs stay.
pub fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive(['\n', '\t']) {
        let end = line.trim_end_matches(['\n', '\t']);
        push(&mut shown, end);
        shown.push_str(&line[end.len()..]);
    }
    shown
}

fn push(shown: &mut String, text: &str) {
    for c in text.chars() {
        // The last two end a line without looking like it.
        if c.is_control() || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}') {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
}

/// A number of bytes in the unit that people would take: `870 bytes`, `1.2 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A number with its thousands apart: `12,345`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_whatever_they_are_made_of() {
        assert_eq!(path(b"caf\xe9/a\nb\x1b[31m"), "caf\\xE9/a\\u{a}b\\u{1b}[31m");
        assert_eq!(path("ü/\u{202E}x".as_bytes()), "ü/\\u{202e}x");
        assert_eq!(path(&[b'a'; 1_000]).chars().count(), MAX_CHARS + 1);
        assert_eq!(text("a\n\tb\u{200B}\r\n"), "a\n\tb\\u{200b}\\u{d}\n");
        assert_eq!(text("a\u{2028}b\u{2029}c\u{85}d"), "a\\u{2028}b\\u{2029}c\\u{85}d");
    }

    #[test]
    fn amounts_are_in_fitting_units() {
        let sizes = [0, 1, 999, 1_500, 20_000_000, 3_000_000_000].map(size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "999 bytes", "1.5 kB", "20.0 MB", "3.0 GB"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }
}
