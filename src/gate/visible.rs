//! A command's output as text for the model (R-EX-8).
//!
//! Nothing a command prints may hide text from the reader or move a cursor: colour codes and titles are
//! removed, since they carry no content, and every other control or invisible character is shown as
//! `\u{200B}` instead of dropped, since files really contain them and patches must match them.

use crate::{gate::sanitize::is_invisible, method::ports::CommandOutcome};

/// Of the limit, what output may be longer and still be shown whole: one part in so many.
const TOLERANCE: usize = 10;
/// Longest terminal string (title, hyperlink) that is removed as one; beyond it, it is text.
const MAX_TERMINAL_STRING: usize = 4_096;

/// A command's output as a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub text: String,
    /// Whether something was left out.
    pub is_cut: bool,
}

/// The output for the model: at most the first and last half of `limit_chars` characters. Between them
/// stands how much was left out, and of which lines, so that they can be asked for. What is longer by a
/// [`TOLERANCE`]th at most is shown whole: to ask for so little costs a step.
pub fn observed(outcome: &CommandOutcome, limit_chars: usize) -> Observed {
    let half = limit_chars / 2;
    let mut is_cut = true;
    let mut text = if outcome.omitted == 0 {
        let all = visible(&String::from_utf8_lossy(&[outcome.head.as_slice(), &outcome.tail].concat()));
        let count = all.chars().count();
        if count < limit_chars + (limit_chars / TOLERANCE).max(1) {
            is_cut = false;
            all
        } else {
            let (head, tail) = (first(&all, half), last(&all, half));
            let left_out = count - 2 * half;
            // A line that the tail begins in the middle of is cut too.
            let broken = !all[..all.len() - tail.len()].ends_with('\n');
            let whole = tail.lines().count().saturating_sub(usize::from(broken));
            let end = all.lines().count() - whole;
            let lines = cut_lines(head, Some(end));
            format!("{head}\n[{left_out} characters left out{lines}]\n{tail}")
        }
    } else {
        let head = visible(&String::from_utf8_lossy(without_cut_end(&outcome.head)));
        let tail = visible(&String::from_utf8_lossy(without_cut_start(&outcome.tail)));
        let cut = |text: &str| text.chars().count().saturating_sub(half) as u64;
        let left_out = outcome.omitted.saturating_add(cut(&head)).saturating_add(cut(&tail));
        let (head, tail) = (first(&head, half), last(&tail, half));
        // The dropped part was counted in bytes.
        format!("{head}\n[about {left_out} characters left out{}]\n{tail}", cut_lines(head, None))
    };
    if outcome.background_ended > 0 {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let ended = match outcome.background_ended {
            1 => "1 background process".to_owned(),
            count => format!("{count} background processes"),
        };
        text.push_str(&format!("[{ended} ended with the command]\n"));
    }
    Observed { text, is_cut }
}

/// The text of [`observed`] alone.
pub fn observation_text(outcome: &CommandOutcome, limit_chars: usize) -> String {
    observed(outcome, limit_chars).text
}

/// Which lines of the output are cut, counted from 1: from the one in which `head` ends to `end`.
fn cut_lines(head: &str, end: Option<usize>) -> String {
    let from = head.matches('\n').count() + 1;
    match end {
        Some(end) if end > from => format!(": lines {from} to {end} of the output"),
        Some(_) => format!(": in line {from} of the output"),
        None => format!(", from line {from} of the output"),
    }
}

/// `text` without terminal sequences and with every other hidden character escaped; `\n` and `\t` stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        if let Some(length) = terminal_sequence(rest) {
            rest = &rest[length..];
            continue;
        }
        if is_hidden(char) {
            shown.push_str(&format!("\\u{{{:X}}}", u32::from(char)));
        } else {
            shown.push(char);
        }
        rest = &rest[char.len_utf8()..];
    }
    shown
}

/// Length in bytes of the terminal sequence that `text` begins with (ECMA-48).
fn terminal_sequence(text: &str) -> Option<usize> {
    let bytes = text.strip_prefix('\u{1b}')?.as_bytes();
    let run = |from: usize, range: std::ops::RangeInclusive<u8>| {
        bytes[from..].iter().take_while(|byte| range.contains(byte)).count()
    };
    let length = match *bytes.first()? {
        // Control sequence: parameters, intermediates, one final byte.
        b'[' => {
            let parameters = 1 + run(1, 0x30..=0x3f);
            let end = parameters + run(parameters, 0x20..=0x2f);
            matches!(bytes.get(end)?, 0x40..=0x7e).then_some(end + 1)?
        }
        // Strings end with BEL or ESC \. One that does not end would swallow the rest of the output.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = bytes
                .iter()
                .take(MAX_TERMINAL_STRING)
                .position(|byte| matches!(byte, 0x07 | 0x1b | b'\n'))
                .filter(|&end| bytes[end] != b'\n')?;
            match bytes[end] {
                0x07 => end + 1,
                _ => (bytes.get(end + 1) == Some(&b'\\')).then_some(end + 2)?,
            }
        }
        // Other escapes: intermediates, one final byte.
        0x20..=0x7e => {
            let end = run(0, 0x20..=0x2f);
            matches!(bytes.get(end)?, 0x30..=0x7e).then_some(end + 1)?
        }
        _ => return None,
    };
    Some(1 + length)
}

/// What S-05 takes out of people's text, and the two separators that end a line without looking like it.
fn is_hidden(char: char) -> bool {
    is_invisible(char) || matches!(char, '\u{2028}' | '\u{2029}')
}

fn first(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn last(text: &str, chars: usize) -> &str {
    let surplus = text.chars().count().saturating_sub(chars);
    match text.char_indices().nth(surplus) {
        Some((start, _)) => &text[start..],
        None => "",
    }
}

/// Without a character that the cap cut in two.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Ok(_) => bytes,
        Err(_) => (1..=3.min(bytes.len()))
            .map(|cut| bytes.split_at(bytes.len() - cut))
            .find(|(_, end)| expected_length(end[0]).is_some_and(|length| length > end.len()))
            .map_or(bytes, |(whole, _)| whole),
    }
}

/// Bytes of a UTF-8 character that begins with `byte`.
fn expected_length(byte: u8) -> Option<usize> {
    match byte {
        0xc2..=0xdf => Some(2),
        0xe0..=0xef => Some(3),
        0xf0..=0xf4 => Some(4),
        _ => None,
    }
}

fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
    &bytes[cut..]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::method::ports::CommandExit;

    fn outcome(head: &[u8], omitted: u64, tail: &[u8]) -> CommandOutcome {
        CommandOutcome {
            exit: CommandExit::Code(0),
            head: head.to_vec(),
            tail: tail.to_vec(),
            omitted,
            background_ended: 0,
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn r_ex_8_terminal_sequences_vanish_and_hidden_characters_are_shown() {
        for (raw, shown) in [
            ("\u{1b}[1;31mred\u{1b}[0m \u{1b}[2K\u{1b}[?25lx", "red x"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}P1$r\u{1b}\\z", "xyz"),
            ("a\u{200b}b\u{202e}c\u{feff}", "a\\u{200B}b\\u{202E}c\\u{FEFF}"),
            ("one\u{2028}line\u{2029}only", "one\\u{2028}line\\u{2029}only"),
            ("tab\tline\r\nnul\0bell\u{7}", "tab\tline\\u{D}\nnul\\u{0}bell\\u{7}"),
            ("\u{9b}31m", "\\u{9B}31m"),
            // What never ends is no sequence: it must not swallow what follows.
            ("\u{1b}]0;open\nsecret", "\\u{1B}]0;open\nsecret"),
            ("\u{1b}[\u{1b}[31mx", "\\u{1B}[x"),
            ("end\u{1b}", "end\\u{1B}"),
            ("naïve 日本 🦀", "naïve 日本 🦀"),
        ] {
            assert_eq!(visible(raw), shown, "{raw:?}");
        }
        assert_eq!(observation_text(&outcome(b"caf\xe9", 0, b""), 100), "caf\u{fffd}");
    }

    #[test]
    fn r_ex_8_long_output_keeps_both_ends_and_counts_the_rest() {
        let text = observation_text(&outcome(b"0123456789abcdef", 0, b""), 10);
        assert_eq!(text, "01234\n[6 characters left out: in line 1 of the output]\nbcdef");
        assert_eq!(observation_text(&outcome(b"01234", 0, b"5678"), 10), "012345678");
        assert_eq!(observation_text(&outcome(b"0123456789", 0, b""), 10), "0123456789");
        let is_whole =
            |chars: usize| observation_text(&outcome(&vec![b'x'; chars], 0, b""), 1_000).len() == chars;
        assert!(is_whole(1_099) && !is_whole(1_100), "a tenth more is shown whole");
        let text = observation_text(&outcome(b"0123456", 100, b"tuvwxyz"), 10);
        assert_eq!(text, "01234\n[about 104 characters left out, from line 1 of the output]\nvwxyz");
        let text = observation_text(&outcome(b"1\n2\n3\n4\n5\n6\n7\n8\n9\n", 0, b""), 8);
        assert_eq!(text, "1\n2\n\n[10 characters left out: lines 3 to 7 of the output]\n8\n9\n");
    }

    #[test]
    fn r_ex_8_a_character_cut_by_the_cap_leaves_no_rubbish() {
        let crab = "🦀".as_bytes();
        for cut in 1..4 {
            let (head, tail) = ([b"a", &crab[..cut]].concat(), [&crab[cut..], b"b"].concat());
            let text = observation_text(&outcome(&head, 9, &tail), 100);
            assert_eq!(text, "a\n[about 9 characters left out, from line 1 of the output]\nb");
        }
        let text = observation_text(&outcome(&crab[..2], 0, &crab[2..]), 100);
        assert_eq!(text, "🦀");
    }

    #[test]
    fn r_ex_3_the_observation_says_what_was_ended_in_the_background() {
        let mut ended = outcome(b"started", 0, b"");
        ended.background_ended = 2;
        assert_eq!(
            observation_text(&ended, 100),
            "started\n[2 background processes ended with the command]\n"
        );
        (ended.omitted, ended.background_ended) = (9, 1);
        assert_eq!(
            observation_text(&ended, 100),
            "started\n[about 9 characters left out, from line 1 of the output]\n\
             [1 background process ended with the command]\n"
        );
    }

    proptest! {
        #[test]
        fn r_ex_8_no_raw_control_character_and_a_bounded_length(
            head in proptest::collection::vec(any::<u8>(), 0..300),
            tail in proptest::collection::vec(any::<u8>(), 0..300),
            omitted in 0u64..3,
            limit in 0usize..200,
        ) {
            let text = observation_text(&outcome(&head, omitted, &tail), limit);
            prop_assert!(text.chars().all(|c| !is_hidden(c)), "{text:?}");
            prop_assert!(text.chars().count() <= limit + limit / TOLERANCE + 100, "{text:?}");
        }

        #[test]
        fn r_ex_8_clean_text_stays_as_it_is(text in "[ -~\\n\\tà-ÿ一-龥]{0,200}", raw in any::<String>()) {
            prop_assert_eq!(visible(&text), text);
            let once = visible(&raw);
            prop_assert_eq!(visible(&once), once.clone());
        }
    }
}
