//! This process's own secrets, in the spellings that a command can give them.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use regex::bytes::{Regex, RegexBuilder};
use secrecy::{ExposeSecret, SecretString};

use super::Scanner;

/// One pattern for all secrets in all spellings; `None` when there is none to look for.
pub(super) fn pattern(secrets: &[SecretString]) -> Option<Regex> {
    let mut spellings: Vec<String> = secrets
        .iter()
        .map(|secret| secret.expose_secret().trim())
        .filter(|secret| secret.len() >= Scanner::MIN_LIVE_BYTES)
        .flat_map(spellings)
        .collect();
    if spellings.is_empty() {
        return None;
    }
    // The longest first: of several that match at one place the first is taken.
    spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    spellings.dedup();
    let pattern = RegexBuilder::new(&spellings.join("|")).unicode(false).size_limit(64 << 20).build();
    Some(pattern.expect("escaped literals of a few secrets are within the size limit"))
}

/// Patterns.
fn spellings(secret: &str) -> Vec<String> {
    let mut all = vec![url_encoded(secret), format!("(?i:{})", hex::encode(secret))];
    for before in 0..3 {
        all.extend(base64_core(secret.as_bytes(), before).map(|core| regex::escape(&core)));
    }
    all
}

/// The secret as it is, and with any of its bytes as a URL writes them.
fn url_encoded(secret: &str) -> String {
    let mut pattern = String::new();
    for byte in secret.bytes() {
        pattern.push_str(&format!(r"(?:\x{byte:02x}|%(?i:{byte:02x})"));
        pattern.push_str(if byte == b' ' { r"|\+)" } else { ")" });
    }
    pattern
}

/// The characters of base64, in both alphabets, that the secret alone decides when `before` bytes, modulo
/// three, stand before it and anything after it.
fn base64_core(secret: &[u8], before: usize) -> impl Iterator<Item = String> {
    let padded = [&[0; 2][..before], secret].concat();
    // Six bits a character: the first whole one after the bytes before, up to the last whole one.
    let first = (before * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    let core = move |encoded: String| encoded[first..last].to_owned();
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)].into_iter().map(core)
}
