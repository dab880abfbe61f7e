//! What `acquire doctor` says: a line a check, and what to do where something is not as it should be.

use crate::gate::shown;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    /// Works, and is worth knowing.
    Note,
    /// Has to be mended before runs work as they should.
    Failed,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Examined {
    /// Such as `engine`, `quota`, `model (resolver)`.
    pub name: String,
    pub state: State,
    /// What was found, and what to do.
    pub text: String,
}

impl Examined {
    pub fn new(name: impl Into<String>, state: State, text: impl Into<String>) -> Self {
        Self { name: name.into(), state, text: text.into() }
    }
}

/// Width of the names' column, in characters.
const NAME_WIDTH: usize = 18;

/// The line of one check.
pub fn examined(it: &Examined) -> String {
    let state = match it.state {
        State::Ok => "ok  ",
        State::Note => "note",
        State::Failed => "TO DO",
    };
    let text = it.text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{state:<6}{:<NAME_WIDTH$} {}", it.name, shown::text(&text))
}

/// The last line.
pub fn diagnosis(all: &[Examined]) -> String {
    match all.iter().filter(|it| it.state == State::Failed).count() {
        0 => "Ready.".to_owned(),
        1 => "One thing is to do.".to_owned(),
        many => format!("{many} things are to do."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_a_line_and_the_last_one_counts_what_is_to_do() {
        let all = [
            Examined::new("engine", State::Ok, "Docker 28"),
            Examined::new("price", State::Note, "unknown\u{1b}[2J\nsecond"),
            Examined::new("model (resolver)", State::Failed, "no key"),
        ];
        let lines: Vec<String> = all.iter().map(examined).collect();
        assert_eq!(lines[0], "ok    engine             Docker 28");
        assert!(!lines[1].contains('\u{1b}') && !lines[1].contains('\n'), "{}", lines[1]);
        assert_eq!(lines[2], "TO DO model (resolver)   no key");
        assert_eq!((diagnosis(&all), diagnosis(&all[..2])), ("One thing is to do.".into(), "Ready.".into()));
    }
}
