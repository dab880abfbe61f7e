//! Pieces of GitHub markdown that hold whatever they are given.

/// Code in a line of text. Line ends become spaces.
pub(super) fn code_span(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let ticks = "`".repeat(longest_run(&text, '`') + 1);
    // A space at each end keeps a backtick at the border apart; it is not shown.
    let pad = if text.starts_with('`') || text.ends_with('`') || text.trim().is_empty() { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Code as a block, with a fence longer than any in it.
pub(super) fn code_block(language: &str, code: &str) -> String {
    let fence = "`".repeat(longest_run(code, '`').max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", code.trim_end_matches('\n'))
}

/// Length of the longest run of `c`.
fn longest_run(text: &str, c: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for one in text.chars() {
        run = if one == c { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// A link, or only its text where the address is not one that stands safely between parentheses.
pub(super) fn link(text: &str, url: Option<&str>) -> String {
    match url.filter(|url| is_plain_url(url)) {
        Some(url) => format!("[{text}]({url})"),
        None => text.to_owned(),
    }
}

fn is_plain_url(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://"))
        && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>\\`\"[]".contains(&byte))
}

/// Something to unfold. `summary` is HTML.
pub(super) fn details(summary: &str, content: &str) -> String {
    format!("<details>\n<summary>{summary}</summary>\n\n{}\n\n</details>", content.trim())
}

/// Cuts a text at a line so that it has at most `limit` characters, closes what the cut leaves open, and ends
/// with `notice`. A text within the limit is returned as it is.
pub(super) fn cut(text: &str, limit: usize, notice: &str) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut open = Open::default();
    let mut kept = String::new();
    let mut left = limit.saturating_sub(notice.chars().count() + 4);
    for line in text.split_inclusive('\n') {
        let mut after = open.clone();
        after.read(line);
        let length = line.chars().count();
        if length + after.closing().chars().count() > left {
            // A text without a line that fits is cut within its first.
            if kept.trim().is_empty() && after.closing().is_empty() && open.closing().is_empty() {
                kept.extend(line.chars().take(left));
            }
            break;
        }
        left -= length;
        kept.push_str(line);
        open = after;
    }
    format!("{}{}\n\n{notice}", kept.trim_end(), open.closing())
}

/// What is open at the end of a line: a fence, and how many `<details>`.
#[derive(Clone, Default)]
struct Open {
    fence: Option<String>,
    details: usize,
}

impl Open {
    fn read(&mut self, line: &str) {
        let line = line.trim();
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'));
        let run: String = line.chars().take_while(|c| Some(*c) == mark).collect();
        match &self.fence {
            Some(fence) if run == line && run.starts_with(fence.as_str()) => self.fence = None,
            Some(_) => {}
            None if run.len() >= 3 && !line[run.len()..].contains('`') => self.fence = Some(run),
            None if line.starts_with("<details") => self.details += 1,
            None if line.starts_with("</details>") => self.details = self.details.saturating_sub(1),
            None => {}
        }
    }

    fn closing(&self) -> String {
        let fence = self.fence.as_ref().map(|fence| format!("\n{fence}")).unwrap_or_default();
        format!("{fence}{}", "\n\n</details>".repeat(self.details))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn code_stays_within_its_marks() {
        assert_eq!(code_span("a"), "`a`");
        assert_eq!(code_span("`a``b"), "``` `a``b ```");
        assert_eq!(code_span("a\nb"), "`a b`");
        assert_eq!(code_block("rs", "```\nx\n````"), "`````rs\n```\nx\n````\n`````");
        assert_eq!(code_block("", "x\n"), "```\nx\n```");
    }

    #[test]
    fn only_plain_addresses_become_links() {
        assert_eq!(link("a", Some("https://x/y#L1-L2")), "[a](https://x/y#L1-L2)");
        for odd in ["javascript:x", "https://x/)[b](c", "https://x y", "https://x/\n"] {
            assert_eq!(link("a", Some(odd)), "a", "{odd}");
        }
    }

    #[test]
    fn a_cut_closes_fences_and_details() {
        let text =
            "a\n\n<details>\n<summary>s</summary>\n\n````py\n```\nlong line\nlong line\n````\n\n</details>\n";
        insta::assert_snapshot!(cut(text, 79, "*Cut.*"), @"
        a

        <details>
        <summary>s</summary>

        ````py
        ```
        ````

        </details>

        *Cut.*
        ");
        assert_eq!(cut(text, 1_000, "*Cut.*"), text);
        assert_eq!(cut(&"x".repeat(100), 20, "*Cut.*"), "xxxxxxxxxx\n\n*Cut.*");
    }

    proptest! {
        #[test]
        fn a_cut_keeps_its_limit_and_its_balance(
            lines in prop::collection::vec(
                prop::sample::select(vec!["<details>", "</details>", "```", "````py", "~~~", "text", ""]), 0..40),
            limit in 30usize..300,
        ) {
            let text = lines.join("\n");
            let cut = cut(&text, limit, "*Cut.*");
            prop_assert!(cut.chars().count() <= limit);
            if cut != text {
                let mut open = Open::default();
                cut.lines().for_each(|line| open.read(line));
                prop_assert!(open.fence.is_none() && open.details == 0, "{}", cut);
            }
        }
    }
}
