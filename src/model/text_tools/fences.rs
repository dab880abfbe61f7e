//! Fenced blocks that hold a call.
//!
//! A block begins at a line of three or more backticks and the tool's name, and ends at a line of at least as
//! many backticks and nothing else, as in Markdown. So content with fences of its own needs longer ones. A
//! command that was cut at a fence of its content would do something else than the model meant, so whatever
//! can be read in two ways is not read at all: after the block no other fence may come, and in it no line
//! that looks like the beginning of one.

/// What a text holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// No block of a tool.
    Nothing,
    Call {
        tool: String,
        content: String,
        /// What stands before and after the block.
        prose: String,
    },
    /// Why its blocks are not one call; a part of a sentence.
    Unreadable(String),
}

/// Reasoning that some models write into their text ends here; a block in it is no call.
const THINKING_ENDS: &str = "</think>";

struct Fence<'a> {
    backticks: usize,
    /// What stands behind the backticks.
    info: &'a str,
}

/// A line that opens or closes a block.
fn fence(line: &str) -> Option<Fence<'_>> {
    let text = line.trim_start_matches(' ');
    if line.len() - text.len() > 3 {
        return None;
    }
    let info = text.trim_start_matches('`');
    let backticks = text.len() - info.len();
    (backticks >= 3 && !info.contains('`')).then(|| Fence { backticks, info: info.trim() })
}

/// A block that holds the content, whatever that is.
pub fn write(tool: &str, content: &str) -> String {
    let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let backticks = "`".repeat(3.max(longest + 1));
    format!("{backticks}{tool}\n{content}\n{backticks}")
}

/// Finds the one block of a tool. Blocks of other names before it are prose.
pub fn read(text: &str, tools: &[&str]) -> Read {
    let spoken = text.rfind(THINKING_ENDS).map_or(0, |at| at + THINKING_ENDS.len());
    let mut lines = lines(text, spoken).peekable();
    let mut around: Option<usize> = None;
    while let Some((start, line)) = lines.next() {
        let Some(Fence { backticks, info }) = fence(line) else { continue };
        if let Some(opened) = around {
            if info.is_empty() && backticks >= opened {
                around = None;
            }
            continue;
        }
        let Some(tool) = tools.iter().find(|tool| **tool == info) else {
            around = Some(backticks);
            continue;
        };
        let from = lines.peek().map_or(text.len(), |(start, _)| *start);
        return block(text, tool, backticks, start, from, lines);
    }
    Read::Nothing
}

/// Reads on from the line behind a block's opening line, which begins at `start`.
fn block<'a>(
    text: &'a str,
    tool: &str,
    backticks: usize,
    start: usize,
    from: usize,
    mut lines: impl Iterator<Item = (usize, &'a str)>,
) -> Read {
    let mut looks_like_one = false;
    let end = lines.by_ref().find(|(_, line)| match fence(line) {
        Some(fence) if fence.backticks >= backticks && fence.info.is_empty() => true,
        Some(fence) => {
            looks_like_one |= fence.backticks >= backticks;
            false
        }
        None => false,
    });
    let Some((end, last)) = end else {
        return Read::Unreadable(format!(
            "the `{tool}` block is not closed by a line of {backticks} backticks"
        ));
    };
    if looks_like_one || lines.any(|(_, line)| fence(line).is_some()) {
        return Read::Unreadable(format!(
            "there are other fences in the `{tool}` block or after it, so it is not certain what belongs to it"
        ));
    }
    let content = text[from..end].strip_suffix('\n').unwrap_or_default();
    // Spaces at the beginning of a line mean something, newlines around the prose do not.
    let trim = |prose: &'a str| prose.trim_start_matches(['\n', '\r']).trim_end();
    let (before, after) = (trim(&text[..start]), trim(&text[end + last.len()..]));
    let space = if before.is_empty() || after.is_empty() { "" } else { "\n\n" };
    let prose = format!("{before}{space}{after}");
    Read::Call { tool: tool.to_owned(), content: content.to_owned(), prose }
}

/// The lines from here on without their ends, each with where it begins.
fn lines(text: &str, from: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut at = from;
    text[from..].split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOOLS: [&str; 2] = ["bash", "submit"];

    fn call(text: &str) -> (String, String, String) {
        match read(text, &TOOLS) {
            Read::Call { tool, content, prose } => (tool, content, prose),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn problem(text: &str) -> String {
        match read(text, &TOOLS) {
            Read::Unreadable(problem) => problem,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn one_block_is_a_call_and_the_rest_is_prose() {
        let expected = ("bash".into(), "ls -l\n\ncat a".into(), "I look.\n\nThen more.".into());
        assert_eq!(call("I look.\n```bash\nls -l\n\ncat a\n```\nThen more.\n"), expected);
        assert_eq!(call("```submit\r\n{}\r\n```").1, "{}\r");
        assert_eq!(call("```bash\n```"), ("bash".into(), String::new(), String::new()));
        let example = "It says:\n```python\nprint(1)\n```\n~~~\nx\n~~~\n  ``` bash  \nls\n  ```";
        assert_eq!(call(example).1, "ls");
    }

    #[test]
    fn a_text_without_a_block_of_a_tool_is_no_call() {
        for text in [
            "",
            "I am done.",
            "```python\nx\n```",
            "Use ```bash\nls``` here",
            "    ```bash\n    ls\n    ```",
            "```Bash\nls\n```",
            "````markdown\n```bash\nls\n```\n````",
            "<think>\n```bash\nrm -r .\n```\n</think>\nI wait.",
        ] {
            assert_eq!(read(text, &TOOLS), Read::Nothing, "{text}");
        }
    }

    #[test]
    fn content_with_fences_needs_longer_ones() {
        let readme = "cat > README.md <<'END'\n```sh\nls\n```\nEND";
        assert_eq!(call(&format!("````bash\n{readme}\n````")).1, readme);
        assert!(problem(&format!("```bash\n{readme}\n```")).contains("other fences in the `bash` block"));
        let plain = "```bash\ncat > a <<'END'\n```\nls\n```\nEND\n```";
        assert!(problem(plain).contains("other fences"));
        let json = r#"{"answer": "```py\nx\n```"}"#;
        assert_eq!(call(&format!("```submit\n{json}\n```")).1, json);
    }

    #[test]
    fn several_blocks_and_open_ones_are_told() {
        assert!(problem("```bash\nls\n```\n```bash\npwd\n```").contains("other fences"));
        assert!(problem("```bash\nls\n```\nIt prints:\n```\na\n```").contains("other fences"));
        assert_eq!(problem("````bash\nls\n```"), "the `bash` block is not closed by a line of 4 backticks");
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(content in "(`{0,5}[a-z\\\\ \"]{0,3}\\PC{0,3}(\n|\r\n)?){0,12}", tool in 0..2_usize) {
            let (read, back, prose) = call(&write(TOOLS[tool], &content));
            prop_assert_eq!((read.as_str(), back, prose), (TOOLS[tool], content, String::new()));
        }

        #[test]
        fn what_was_read_is_read_again(text in "((`{3,4}(bash|submit|py)?|[a-z `]{0,6}|</think>)\n){0,9}") {
            if let Read::Call { tool, content, prose } = read(&text, &TOOLS) {
                let again = format!("{prose}\n\n{}", write(&tool, &content));
                let after = read(&again, &TOOLS);
                prop_assert_eq!(after, Read::Call { tool, content, prose });
            }
        }
    }
}
