//! Tokens that identify themselves by their format.

use std::{borrow::Cow, fmt, sync::LazyLock};

use regex::bytes::{Captures, Regex, RegexSet};

use super::Finding;

/// What a secret is. In the order of how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretKind {
    /// One that this process holds.
    Live,
    PrivateKey,
    Token(&'static str),
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "secret of this service",
            Self::PrivateKey => "private key",
            Self::Token(name) => name,
        })
    }
}

/// Name and pattern; the group `secret`, where there is one, is the secret within the hit.
pub(super) const FORMATS: [(&str, &str); 34] = [
    ("GitHub token", r"\bgh[pousr]_[A-Za-z0-9_]{36,}"),
    ("GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{1,30}_eyJ[A-Za-z0-9_\-]{10,}(?:\.[A-Za-z0-9_\-]{10,}){1,2}"),
    ("GitHub token", r"\bgithub_pat_[A-Za-z0-9_]{50,}"),
    ("GitLab token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[A-Za-z0-9_\-.]{20,}"),
    ("AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    (
        "AWS secret key",
        r#"(?i:aws|secret|amz)[A-Za-z0-9_\-. ]{0,30}(?i:key|token)\\{0,7}["'`]?\s{0,12}(?:=>?|:)\s{0,12}\\{0,7}["'`]?(?<secret>[A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
    ),
    ("Anthropic key", r"\bsk-ant-[a-z0-9]{2,10}-[A-Za-z0-9_\-]{20,}"),
    ("OpenRouter key", r"\bsk-or-v1-[0-9a-f]{32,}"),
    ("OpenAI key", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_\-]{20,}"),
    ("API key", r"\bsk-[A-Za-z0-9]{32,}\b"),
    ("Google API key", r"\bAIza[A-Za-z0-9_\-]{35}"),
    ("Google OAuth secret", r"\bGOCSPX-[A-Za-z0-9_\-]{28}"),
    ("Google OAuth token", r"\bya29\.[A-Za-z0-9_\-]{30,}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9\-]{20,}"),
    ("Slack token", r"\bxapp-[0-9]-[A-Za-z0-9\-]{20,}"),
    ("Slack webhook", r"\bhooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_]{30,}"),
    ("Stripe key", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    ("Stripe webhook secret", r"\bwhsec_[A-Za-z0-9+/]{32,}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-Ag[A-Za-z0-9_\-]{50,}"),
    ("crates.io token", r"\bcio[A-Za-z0-9]{32}\b"),
    ("Azure storage key", r"\bAccountKey=[A-Za-z0-9+/]{86}=="),
    ("Azure client secret", r"\b[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}"),
    ("Telegram bot token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}\b"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{34,}\b"),
    ("SendGrid key", r"\bSG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}"),
    ("DigitalOcean token", r"\bdo[opr]_v1_[0-9a-f]{64}"),
    ("Docker token", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_\-]{27,}"),
    ("Groq key", r"\bgsk_[A-Za-z0-9]{50,}"),
    ("xAI key", r"\bxai-[A-Za-z0-9]{70,}"),
    ("Databricks token", r"\bdapi[0-9a-f]{32}\b"),
    ("Shopify token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("Vault token", r"\bhv[sbr]\.[A-Za-z0-9_\-]{80,}"),
    ("JSON web token", r"\beyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{16,}"),
];

/// A head and enough of what must follow it: source code that looks for heads has none.
const PRIVATE_KEY: &str =
    r#"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?s:.{0,300}?)[A-Za-z0-9+/]{40}"#;
/// Escapes of JSON and of programming languages, escaped themselves any number of times, those of URLs, and
/// what is left of a terminal's colours.
const ESCAPE: &str = r"\\+(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|[abefnrtv])|%(?:25)*[0-9A-Fa-f]{2}|\[[0-9;]{0,20}[mK]";
/// The furthest that the end of a private key is looked for, in bytes.
const LONGEST_KEY: usize = 16_384;

struct Formats {
    any: RegexSet,
    each: Vec<Regex>,
    escape: Regex,
    private_key: Regex,
    private_key_end: Regex,
}

static COMPILED: LazyLock<Formats> = LazyLock::new(|| {
    // Bytes, not Unicode: what is scanned need not be text.
    let bytes = |pattern: &str| format!("(?-u){pattern}");
    let regex = |pattern: &str| {
        Regex::new(&bytes(pattern)).expect("the pattern ships with the program, and a test compiles it")
    };
    Formats {
        any: RegexSet::new(FORMATS.iter().map(|(_, pattern)| bytes(pattern)))
            .expect("the patterns ship with the program, and a test compiles them"),
        each: FORMATS.iter().map(|(_, pattern)| regex(pattern)).collect(),
        escape: regex(ESCAPE),
        private_key: regex(PRIVATE_KEY),
        private_key_end: regex(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    }
});

/// Adds what is found, in no order.
pub(super) fn find(bytes: &[u8], found: &mut Vec<Finding>) {
    find_tokens(bytes, found);
    if let Cow::Owned(unescaped) = without_escapes(bytes) {
        find_tokens(&unescaped, found);
    }
    find_private_keys(bytes, found);
}

/// Letters and digits that end an escape are no part of the word that follows: in JSON within JSON, `\\n`
/// stands right before what began a line. They become spaces here, so that all else stays where it is.
fn without_escapes(bytes: &[u8]) -> Cow<'_, [u8]> {
    COMPILED.escape.replace_all(bytes, |escape: &Captures<'_>| vec![b' '; escape[0].len()])
}

fn find_tokens(bytes: &[u8], found: &mut Vec<Finding>) {
    for index in COMPILED.any.matches(bytes) {
        let kind = SecretKind::Token(FORMATS[index].0);
        for hit in COMPILED.each[index].captures_iter(bytes) {
            let named = hit.name("secret");
            let Some(secret) = named.or_else(|| hit.get(0)) else { continue };
            if is_example(secret.as_bytes()) || (named.is_some() && !is_mixed(secret.as_bytes())) {
                continue;
            }
            found.push(Finding { kind, range: secret.range() });
        }
    }
}

fn find_private_keys(bytes: &[u8], found: &mut Vec<Finding>) {
    for head in COMPILED.private_key.find_iter(bytes) {
        let most = bytes.len().min(head.start() + LONGEST_KEY);
        let body = &bytes[head.end()..most.max(head.end())];
        let end = match COMPILED.private_key_end.find(body) {
            Some(end) => end.end(),
            None => {
                let end = body.iter().position(|byte| !is_key_byte(*byte)).unwrap_or(body.len());
                // A backslash at the end belongs to what follows, such as the quote that ends a JSON string.
                let is_end = |byte: &u8| !b"\\ \t\r\n".contains(byte);
                body[..end].iter().rposition(is_end).map_or(0, |last| last + 1)
            }
        };
        found.push(Finding { kind: SecretKind::PrivateKey, range: head.start()..head.end() + end });
    }
}

/// Base64, and the line ends and diff marks between its lines.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=\r\n\\ \t".contains(&byte)
}

/// A bare 40 characters after the word "secret key" are as often the digits of a hash.
fn is_mixed(secret: &[u8]) -> bool {
    secret.iter().any(u8::is_ascii_uppercase) && secret.iter().any(u8::is_ascii_lowercase)
}

/// The keys that AWS's own documentation uses end in this; they are all over public repositories.
fn is_example(secret: &[u8]) -> bool {
    secret.ends_with(b"EXAMPLE") || secret.ends_with(b"EXAMPLEKEY")
}
