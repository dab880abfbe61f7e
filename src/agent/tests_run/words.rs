//! A command as the shell reads it, as far as it is plain enough to be sure of.
//!
//! Crates that split words, such as shlex, know quotes but no operators: to them `a;b` is one word.

/// One word, its quotes and backslashes resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    /// Holds something that the shell replaces, such as a variable, outside of single quotes.
    pub expands: bool,
}

/// The words of the commands that `&&` joins, without redirections and comments. `None` for all that is more
/// than such a list: other operators, groups, substitutions, documents, several lines.
pub(super) fn commands(line: &str) -> Option<Vec<Vec<Word>>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut chars = line.trim().chars().peekable();
    // The next word is the file of a redirection.
    let mut is_target = false;
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '&' | '>' | '<' => {
                // The digits right before a redirection are the number of a file.
                let number = |word: &Word| matches!(char, '>' | '<') && is_number(&word.text);
                if let Some(done) = word.take().filter(|word| !number(word))
                    && !std::mem::take(&mut is_target)
                {
                    all.last_mut()?.push(done);
                }
                match char {
                    '&' if chars.next_if_eq(&'&').is_some() => {
                        if is_target {
                            return None;
                        }
                        all.push(Vec::new());
                    }
                    '&' => {
                        chars.next_if_eq(&'>')?;
                        chars.next_if_eq(&'>');
                        is_target = true;
                    }
                    '>' | '<' => {
                        if is_target || chars.peek().is_some_and(|next| matches!(next, '(' | '|')) {
                            return None;
                        }
                        match chars.next_if(|next| matches!(next, '>' | '<' | '&')) {
                            Some(next) if next != '&' && (next, char) != ('>', '>') => return None,
                            _ => is_target = true,
                        }
                    }
                    _ => {}
                }
            }
            '|' | ';' | '(' | ')' | '`' | '\n' | '\r' => return None,
            '#' if word.is_none() => {
                if chars.any(|char| char == '\n') {
                    return None;
                }
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        char => word.text.push(char),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '`' => return None,
                        '\\' => match chars.next()? {
                            '\n' => {}
                            char @ ('$' | '`' | '"' | '\\') => word.text.push(char),
                            char => word.text.extend(['\\', char]),
                        },
                        char => dollar(char, chars.peek(), word)?,
                    }
                }
            }
            '\\' => match chars.next()? {
                '\n' => {}
                char => word.get_or_insert_default().text.push(char),
            },
            char => dollar(char, chars.peek(), word.get_or_insert_default())?,
        }
    }
    if let Some(done) = word
        && !std::mem::take(&mut is_target)
    {
        all.last_mut()?.push(done);
    }
    let complete = !is_target && all.iter().all(|words| !words.is_empty());
    complete.then_some(all)
}

/// Adds a character; `None` where a substitution begins, which can run anything.
fn dollar(char: char, next: Option<&char>, word: &mut Word) -> Option<()> {
    if char == '$' {
        if next.is_some_and(|next| matches!(next, '(' | '{' | '[' | '\'' | '"')) {
            return None;
        }
        word.expands = true;
    }
    word.text.push(char);
    Some(())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Vec<Vec<String>>> {
        let texts = |words: Vec<Word>| words.into_iter().map(|word| word.text).collect();
        commands(line).map(|all| all.into_iter().map(texts).collect())
    }

    #[test]
    fn words_are_read_as_the_shell_reads_them() {
        let reads = |line: &str, expected: &[&[&str]]| {
            let read = read(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(read, expected, "{line}");
        };
        reads("a  'b c' \"d \\\" e\"f\\ g ''", &[&["a", "b c", "d \" ef g", ""]]);
        reads("cd x && a 2>&1 && b > f c", &[&["cd", "x"], &["a"], &["b", "c"]]);
        reads("a &> f b >>f 2> /dev/null <in c", &[&["a", "b", "c"]]);
        reads("a '&&' \"| ;\" # && b | c", &[&["a", "&&", "| ;"]]);
        reads("a b#c \\\n d", &[&["a", "b#c", "d"]]);
        assert_eq!(commands("$a"), Some(vec![vec![Word { text: "$a".into(), expands: true }]]));
        assert_eq!(commands("'$a'"), Some(vec![vec![Word { text: "$a".into(), expands: false }]]));
    }

    #[test]
    fn what_is_not_plain_is_not_read() {
        for line in [
            "",
            "&&",
            "a &&",
            "&& a",
            "a | b",
            "a || b",
            "a; b",
            "a & b",
            "a &",
            "a\nb",
            "(a)",
            "a `b`",
            "a $(b)",
            "a \"$(b)\"",
            "a \"`b`\"",
            "a ${b}",
            "a $'b'",
            "a <<E",
            "a <(b)",
            "a >(b)",
            "a >|b",
            "a 'b",
            "a \"b",
            "a \\",
            "a >",
            "a > && b",
            "a # b\nc",
            "a\r\nb",
            "a <> b",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
