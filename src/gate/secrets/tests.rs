//! Tokens are put together at run time, so that no scanner, this one included, stumbles over this file.

use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose};
use proptest::prelude::*;

use super::*;

fn scanner(live: &[&str]) -> Scanner {
    Scanner::new(&live.iter().map(|secret| SecretString::from(*secret)).collect::<Vec<_>>())
}

/// `n` characters that look random, letters of both cases and digits.
fn noise(n: usize) -> String {
    let alphabet = b"aB3dE5gH7jK9mN1pQ2sT4vW6yZ8cX0fR";
    (0..n).map(|at| alphabet[(at * 7 + at / 5) % alphabet.len()] as char).collect()
}

fn hexadecimal(n: usize) -> String {
    hex::encode(noise(n)).chars().take(n).collect()
}

fn tokens() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    for letter in ["p", "o", "u", "s", "r"] {
        all.push(("GitHub token", format!("gh{letter}_{}", noise(36))));
    }
    let jwt = format!("ey{0}{1}.ey{0}{2}.{3}", "J", noise(20), noise(60), noise(43));
    all.push(("GitHub token", format!("gh{}_{}_{jwt}", "s", "123456")));
    all.push(("GitHub token", format!("github_{}_{}_{}", "pat", noise(22), noise(59))));
    all.push(("GitLab token", format!("gl{}-{}", "pat", noise(20))));
    all.push(("AWS access key", format!("AK{}{}", "IA", "Q3EGRIZ7LN2WT5XK")));
    all.push(("Anthropic key", format!("sk-{}-api03-{}", "ant", noise(90))));
    all.push(("OpenRouter key", format!("sk-{}-v1-{}", "or", hexadecimal(64))));
    all.push(("OpenAI key", format!("sk-{}-{}", "proj", noise(80))));
    all.push(("API key", format!("sk{}{}", "-", noise(48))));
    all.push(("Google API key", format!("AI{}{}", "za", noise(35))));
    all.push(("Google OAuth secret", format!("GOC{}-{}", "SPX", noise(28))));
    all.push(("Google OAuth token", format!("ya{}.{}", "29", noise(60))));
    all.push(("Slack token", format!("xo{}-{}-{}", "xb", "1234567890123", noise(24))));
    all.push(("Slack token", format!("xa{}-1-{}", "pp", noise(40))));
    all.push((
        "Slack webhook",
        format!("hooks.{}.com/services/T{}/B{}/{}", "slack", noise(9), noise(9), noise(24)),
    ));
    all.push(("Stripe key", format!("sk{}live_{}", "_", noise(24))));
    all.push(("Stripe webhook secret", format!("wh{}_{}", "sec", noise(32))));
    all.push(("npm token", format!("np{}_{}", "m", noise(36))));
    all.push(("PyPI token", format!("py{}-AgEIcHlwaS5vcmc{}", "pi", noise(80))));
    all.push(("crates.io token", format!("ci{}{}", "o", noise(32))));
    all.push(("Azure storage key", format!("Account{}={}==", "Key", noise(86))));
    all.push(("Azure client secret", format!("abc8{}~{}", "Q", noise(34))));
    all.push(("Telegram bot token", format!("123456789:A{}{}", "A", noise(33))));
    all.push(("Hugging Face token", format!("h{}_{}", "f", noise(34))));
    all.push(("SendGrid key", format!("S{}.{}.{}", "G", noise(22), noise(43))));
    all.push(("DigitalOcean token", format!("do{}_v1_{}", "p", hexadecimal(64))));
    all.push(("Docker token", format!("dckr_{}_{}", "pat", noise(27))));
    all.push(("Groq key", format!("gs{}_{}", "k", noise(52))));
    all.push(("xAI key", format!("xa{}-{}", "i", noise(80))));
    all.push(("Databricks token", format!("da{}{}", "pi", hexadecimal(32))));
    all.push(("Shopify token", format!("shp{}_{}", "at", hexadecimal(32))));
    all.push(("Vault token", format!("hv{}.{}", "s", noise(90))));
    all.push(("JSON web token", jwt));
    all
}

fn private_key(kind: &str) -> String {
    let body: String = (0..6).map(|_| format!("{}\n", noise(64))).collect();
    format!("-----BEGIN {kind}PRIVATE {0}-----\n{body}-----END {kind}PRIVATE {0}-----", "KEY")
}

#[test]
fn s_33_every_known_format_is_found_and_redacted() {
    let scanner = scanner(&[]);
    let tokens = tokens();
    let named: std::collections::BTreeSet<_> = tokens.iter().map(|(name, _)| *name).collect();
    for (name, _) in formats::FORMATS {
        assert!(named.contains(name) || name == "AWS secret key", "no test for {name}");
    }
    for (name, token) in tokens {
        for text in
            [token.clone(), format!("x = \"{token}\"\n"), format!("a\t{token} b"), format!("={token}&c=d")]
        {
            let found = scanner.scan(text.as_bytes());
            assert_eq!(found.len(), 1, "{name}: {text}");
            assert_eq!(found[0].kind, SecretKind::Token(name), "{text}");
            let redacted = scanner.redact(&text);
            assert_eq!(redacted, text.replace(&token, &format!("[redacted: {name}]")), "{text}");
        }
    }
}

#[test]
fn s_33_every_known_format_is_found_right_after_an_escape() {
    let scanner = scanner(&[]);
    let escapes =
        [r"\n", r"\t", r"\r", r"\b", r"\f", r#"\""#, r"\u000a", r"\u001b[31m", r"\x0a", r"\012", r"\0"];
    let mut before: Vec<String> = escapes.iter().map(|escape| (*escape).to_owned()).collect();
    before.extend(escapes.map(|escape| escape.replace('\\', r"\\")));
    before.extend(escapes.map(|escape| escape.replace('\\', r"\\\\")));
    before.extend(["%0A", "%20", "%250a", "\x1b[0m", "\x1b[1;32m"].map(str::to_owned));
    for (name, token) in tokens() {
        for before in &before {
            let text = format!("{{\"command\": \"cat x{before}{token}{before}{token}\"}}");
            let mark = format!("[redacted: {name}]");
            let expected = format!("{{\"command\": \"cat x{before}{mark}{before}{mark}\"}}");
            // An octal escape may end in a digit of what follows it.
            if before.ends_with('0') && name == "Telegram bot token" {
                assert!(!scanner.redact(&text).contains(&token[3..]), "{text}");
                continue;
            }
            assert_eq!(scanner.redact(&text), expected, "{name}");
        }
    }
    let secret = format!("{}/{}+", noise(20), noise(18));
    for levels in 0..4 {
        let mut text = format!("{{\"SecretAccess{}\":\n \"{secret}\"}}", "Key");
        for _ in 0..levels {
            text = serde_json::to_string(&text).unwrap();
        }
        assert!(!scanner.redact(&text).contains(&secret), "{text}");
    }
}

#[test]
fn s_33_secrets_that_only_their_name_gives_away() {
    let secret = format!("{}/{}+", noise(20), noise(18));
    for text in [
        format!("aws_secret_access_{} = {secret}", "key"),
        format!("AWS_SECRET_ACCESS_{}: \"{secret}\"", "KEY"),
        format!("{{\"SecretAccess{}\": \"{secret}\"}}", "Key"),
    ] {
        let found = scanner(&[]).scan(text.as_bytes());
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(&text[found[0].range.clone()], secret);
    }
}

#[test]
fn s_33_private_keys_are_found_whole_with_and_without_an_end() {
    let scanner = scanner(&[]);
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let key = private_key(kind);
        let text = format!("before\n{key}\nafter");
        assert_eq!(scanner.redact(&text), "before\n[redacted: private key]\nafter", "{kind}");
        let in_code = format!("KEY = \"{}\"", key.replace('\n', "\\n"));
        assert_eq!(scanner.redact(&in_code), "KEY = \"[redacted: private key]\"");
        let cut = text.split("-----END").next().unwrap();
        assert_eq!(scanner.redact(cut), "before\n[redacted: private key]\n");
    }
}

#[test]
fn s_33_redacted_json_is_still_json() {
    let scanner = scanner(&["a-live-secret"]);
    let mut secrets: Vec<String> = tokens().into_iter().map(|(_, token)| token).collect();
    let key = private_key("");
    secrets.extend([key.split("-----END").next().unwrap().to_owned(), key, "a-live-secret".to_owned()]);
    for secret in secrets {
        for text in [format!("\"{secret}\""), format!("{secret}\\"), format!("x={secret}\n")] {
            let line = serde_json::json!({ "text": text, "more": 1 }).to_string();
            let redacted = scanner.redact(&line);
            assert_ne!(redacted, line);
            let value: serde_json::Value = serde_json::from_str(&redacted).expect(&redacted);
            assert_eq!(value["more"], 1);
        }
    }
}

#[test]
fn s_33_ordinary_code_is_not_flagged() {
    let key_head = format!("-----BEGIN RSA PRIVATE {}-----", "KEY");
    for innocent in [
        "password = \"hunter2hunter2\"".to_owned(),
        format!("if text.startswith(\"{key_head}\"):\n    raise ValueError(\"no keys\")"),
        format!("secret_key = \"{}\"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        format!("aws_access_key_id = AK{}IOSFODNN7EXAMPLE", "IA"),
        "commit 3f786850e387550fdab836ed7e6dc881de23001b".to_owned(),
        "sk-short, task-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, ghp_short".to_owned(),
        "https://example.com/?token=abc data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACN"
            .to_owned(),
        r"C:\\task-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \task-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            .to_owned(),
        "sha512-Q3EGRIZ7LN2WT5XKQ3EGRIZ7LN2WT5XKQ3EGRIZ7LN2WT5XK==".to_owned(),
    ] {
        assert_eq!(scanner(&[]).scan(innocent.as_bytes()), [], "{innocent}");
        assert!(matches!(scanner(&[]).redact(&innocent), Cow::Borrowed(_)));
    }
}

#[test]
fn s_33_live_secrets_are_found_in_every_spelling() {
    let secret = "s3cr3t/with+odd=chars~и";
    let scanner = scanner(&[secret, "tiny", "another-live-secret"]);
    let all_percent: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let url: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    for spelled in [
        secret.to_owned(),
        hex::encode(secret),
        hex::encode_upper(secret),
        all_percent,
        url,
        url::Url::parse(&format!("http://h/{}", secret.replace('/', "%2f"))).unwrap().path().to_owned(),
    ] {
        let text = format!("before {spelled} after");
        let found = scanner.scan(text.as_bytes());
        assert_eq!(found.iter().map(|f| f.kind).collect::<Vec<_>>(), [SecretKind::Live], "{spelled}");
    }
    for engine in [&general_purpose::STANDARD, &general_purpose::URL_SAFE] {
        for before in 0..7 {
            for after in 0..4 {
                let whole = format!("{}{secret}{}", "x".repeat(before), "y".repeat(after));
                let text = format!("= {}", engine.encode(whole));
                assert_eq!(scanner.scan(text.as_bytes()).len(), 1, "{before} {after}");
            }
        }
    }
    assert_eq!(scanner.scan(b"tiny"), [], "too short to look for");
    assert_eq!(scanner.redact("a another-live-secret b"), "a [redacted: secret of this service] b");
}

#[test]
fn s_33_a_secret_in_a_spelling_of_markdown_takes_its_lines_with_it() {
    let live = "supersecretvalue-of-this-run-998877";
    let scanner = scanner(&[live]);
    let rest = noise(36);
    let escaped = live.replace('-', r"\-");
    let hub = "[redacted: GitHub token]";
    let ours = "[redacted: secret of this service]";
    for (text, expected) in [
        (format!(r"see ghp\_{rest} here"), hub.to_owned()),
        (format!("see ghp&#95;{rest} here"), hub.to_owned()),
        (format!("see ghp&#X5f;{rest} here"), hub.to_owned()),
        (format!("see ghp&lowbar;{rest} here"), hub.to_owned()),
        (format!("see ghp&amp;#95;{rest} here"), hub.to_owned()),
        (format!(r"see ghp\\_{rest} here"), hub.to_owned()),
        (format!("see g**hp_{}**{} here", &rest[..9], &rest[9..]), hub.to_owned()),
        (format!("see gh`p_{}`<b>{}</b> here", &rest[..9], &rest[9..]), hub.to_owned()),
        (format!("see gh[p_{}](https://a.example){} here", &rest[..9], &rest[9..]), hub.to_owned()),
        (format!("see [this](https://a.example/?t=ghp%5F{rest})"), hub.to_owned()),
        (format!("see ghp_\u{200b}{rest} here"), hub.to_owned()),
        (format!("see _AK{}_ here", "IAQ3EGRIZ7LN2WT5XK"), "[redacted: AWS access key]".to_owned()),
        (format!("a\n\n> - ghp\\_{rest}\n> - b\n\nc\n"), format!("a\n\n> - {hub}\n> - b\n\nc\n")),
        (format!("# ghp\\_{rest}\n\n```x\nghp\\_{rest}\n```\n"), format!("# {hub}\n\n```x\n{hub}\n```\n")),
        (format!("our `{escaped}`.\nand **{live}**\n"), format!("{ours}\nand **{ours}**\n")),
        (format!("é {escaped} é"), ours.to_owned()),
        (format!("| a | b |\n|---|---|\n| ghp\\_{rest} | é |\n"), format!("| a | b |\n|---|---|\n{hub}\n")),
        (format!("<p>g<i>h</i>p&#95;{rest}</p>\n"), format!("{hub}\n")),
    ] {
        assert_eq!(scanner.redact_markdown(&text), expected, "{text}");
    }
    let cut = private_key("").split("-----END").next().unwrap().replace('\n', "\n> ");
    let redacted = scanner.redact_markdown(&format!("> {cut}\n\né after"));
    assert_eq!(redacted, "> [redacted: private key]\n> \n\né after");
}

#[test]
fn s_33_markdown_that_spells_secrets_plainly_loses_only_them() {
    let token = &tokens()[0].1;
    let scanner = scanner(&[]);
    for text in ["a {} b\n", "> `{}` **x** \\_y\\_ &amp;\n", "```\n{}\n\n```\n| é | {} |\n", "[a]({})"] {
        let text = text.replace("{}", token);
        assert_eq!(scanner.redact_markdown(&text), scanner.redact(&text), "{text}");
    }
    let plain = "# a\n\n- `ghp_short` &copy; **b** <br> \\* https://a.example/%20\n";
    assert_eq!(scanner.redact_markdown(plain), plain);
}

#[test]
fn s_33_nothing_that_is_shown_holds_the_secret() {
    let secret = "my-very-live-secret";
    let scanner = scanner(&[secret]);
    let found = scanner.scan(secret.as_bytes());
    let shown = format!("{scanner:?} {found:?} {:?}", scanner.scan_patch(secret.as_bytes()));
    assert!(!shown.contains(secret) && !shown.contains(&hex::encode(secret)));
}

#[test]
fn s_33_a_live_token_in_a_known_format_is_one_finding() {
    let token = format!("gh{}_{}", "s", noise(36));
    let found = scanner(&[&token]).scan(format!("Bearer {token}").as_bytes());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, SecretKind::Live);
}

#[test]
fn s_33_in_a_diff_added_lines_and_names_count() {
    let token = &tokens()[0].1;
    let key = private_key("");
    let key_lines: String = key.lines().map(|line| format!("+{line}\n")).collect();
    let key_count = key.lines().count();
    let diff = format!(
        "diff --git a/old.py b/old.py\n--- a/old.py\n+++ b/old.py\n@@ -1,3 +1,3 @@ def f():\n context {token}\n\
         -removed {token}\n+added {token}\n last\n@@ -10 +10,2 @@\n-a\n+++ {token}\n+c\n\
         diff --git a/k.pem b/k.pem\nnew file mode 100644\n--- /dev/null\n+++ b/k.pem\n@@ -0,0 +1,{key_count} @@\n{key_lines}\
         \\ No newline at end of file\n\
         diff --git a/x b/{token}\nsimilarity index 100%\nrename from x\nrename to {token}\n"
    );
    let found: Vec<_> = scanner(&[])
        .scan_patch(diff.as_bytes())
        .into_iter()
        .map(|finding| format!("{} {:?} {}", finding.path, finding.line, finding.kind))
        .collect();
    assert_eq!(
        found,
        [
            "old.py Some(2) GitHub token",
            "old.py Some(10) GitHub token",
            "k.pem Some(1) private key",
            "[redacted: GitHub token] None GitHub token",
        ]
    );
}

#[test]
fn s_33_a_binary_file_is_scanned_whole_and_in_utf_16_for_what_its_base_has_not() {
    let scanner = scanner(&["a-live-secret"]);
    let wide =
        |text: &str, order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<_>>();
    let mut secrets: Vec<String> = tokens().into_iter().map(|(_, token)| token).collect();
    secrets.extend([private_key(""), "a-live-secret".to_owned()]);
    for secret in &secrets {
        let text = format!("x = \"{secret}\"\n");
        let [little, big] = [wide(&text, u16::to_le_bytes), wide(&text, u16::to_be_bytes)];
        let bare = wide(secret, u16::to_be_bytes);
        let plain = format!("{text}\0").into_bytes();
        for content in [&plain, &little, &big, &bare] {
            let later = [content, &b"\x01\x80 more"[..]].concat();
            for content in [content, &later, &[b"\xff\0\x01", &content[..]].concat()] {
                assert!(scanner.adds_in_binary(content, b""), "{secret}");
                assert!(scanner.adds_in_binary(content, b"\0 another file"), "{secret}");
            }
            assert!(!scanner.adds_in_binary(&later, content), "{secret} was there before");
        }
        // A binary file that becomes text is still encoded in the diff.
        assert!(scanner.adds_in_binary(text.as_bytes(), b"\0"));
        // Of text, the diff shows what is new.
        assert!(!scanner.adds_in_binary(text.as_bytes(), b"x = 1\n"));
    }
    let two = format!("{}\0{}", secrets[0], secrets[1]);
    assert!(scanner.adds_in_binary(two.as_bytes(), format!("\0{}", secrets[0]).as_bytes()));
    assert!(!scanner.adds_in_binary(b"", two.as_bytes()));
    assert!(!scanner.adds_in_binary(b"\0\x01 nothing secret", b""));
}

#[test]
fn s_33_ten_megabytes_take_seconds() {
    let scanner = scanner(&["a-live-secret-of-ours"]);
    for part in [
        "fn main() { println!(\"hello\"); }\n",
        "eyJ",
        "sk-ant-",
        "-----BEGIN PRIVATE KEY-----",
        "\0\u{ff}",
        "gh",
    ] {
        let text = part.repeat(10_000_000 / part.len());
        let start = Instant::now();
        scanner.adds_in_binary(format!("{text}\0").as_bytes(), b"");
        assert!(start.elapsed() < Duration::from_secs(60), "{part:?} took {:?}", start.elapsed());
    }
}

proptest! {
    #[test]
    fn s_33_what_was_redacted_is_clean(before in "\\PC{0,20}", after in "\\PC{0,20}", which in 0usize..40) {
        let tokens = tokens();
        let live = "ünï-live-secret";
        let scanner = scanner(&[live]);
        let token = tokens.get(which).map_or(live, |(_, token)| token.as_str());
        let text = format!("{before} {token} {after}");
        let redacted = scanner.redact(&text).into_owned();
        prop_assert!(!redacted.contains(token));
        prop_assert_eq!(scanner.scan(redacted.as_bytes()), []);
    }

    #[test]
    fn s_33_no_markdown_renders_a_secret(
        text in "[ -~é\\n]{0,80}",
        cuts in prop::collection::vec((0usize..40, 0usize..9), 0..5),
    ) {
        let scanner = scanner(&[]);
        let mut token = tokens()[0].1.clone();
        for (at, mark) in cuts {
            let marks = ["**", "*", "`", "\u{200b}", "<b>", "</b>", "\\", "&shy;", "~~"];
            token.insert_str(token.floor_char_boundary(at), marks[mark]);
        }
        let redacted = scanner.redact_markdown(&format!("{text}{token}{text}"));
        let mut shown = String::new();
        for event in crate::gate::markdown::parser(&redacted) {
            match event {
                pulldown_cmark::Event::Text(text) | pulldown_cmark::Event::Code(text) => shown.push_str(&text),
                event if crate::gate::markdown::is_block_border(&event) => shown.push('\n'),
                pulldown_cmark::Event::SoftBreak | pulldown_cmark::Event::HardBreak => shown.push('\n'),
                _ => {}
            }
        }
        shown.retain(|char| !crate::gate::sanitize::is_invisible(char));
        let found = scanner.scan(shown.as_bytes());
        prop_assert!(found.is_empty(), "{redacted}");
        prop_assert_eq!(scanner.redact_markdown(&redacted), redacted);
    }

    #[test]
    fn s_33_any_bytes_can_be_scanned(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let scanner = scanner(&["a-live-secret"]);
        scanner.scan(&bytes);
        scanner.redact_markdown(&String::from_utf8_lossy(&bytes));
        scanner.scan_patch(&bytes);
        scanner.adds_in_binary(&bytes, &bytes);
    }
}
