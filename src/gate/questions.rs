//! Questions that a person asks: within limits (S-07), and cleaned of what people do not see (S-05). A model reads
//! each within a fence, as it reads an issue.
//!
//! A question is no markdown: it stands in a terminal or a file as it was written, so that nothing but a
//! character without a shape can hide in it. Taken for markdown, `Vec<T>` would lose its `<T>`.

use super::sanitize::{Removed, is_invisible};

/// Most questions of a run.
pub const MAX_QUESTIONS: usize = 20;
/// Longest question, in characters.
pub const MAX_QUESTION_CHARS: usize = 4_000;

/// Why a question is not asked; whoever wrote it must act. Numbers count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("there is no question: give at least one, in words")]
    None,
    #[error(
        "{0} questions are more than the {MAX_QUESTIONS} that a run answers. Ask the rest in another run"
    )]
    TooMany(usize),
    #[error("question {number} is empty: it has no words that people see")]
    Empty { number: usize },
    #[error(
        "question {number} has {chars} characters, more than the {MAX_QUESTION_CHARS} that are read. Ask for one \
         thing, and name files instead of quoting them"
    )]
    TooLong { number: usize, chars: usize },
}

impl QuestionError {
    /// The stable name that `run.json` shows.
    pub fn class(&self) -> &'static str {
        match self {
            Self::None | Self::Empty { .. } => "question_empty",
            Self::TooMany(_) => "question_too_many",
            Self::TooLong { .. } => "question_too_long",
        }
    }
}

/// A question that a model may read, within a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmittedQuestion {
    pub text: String,
    /// What was hidden in it.
    pub removed: Removed,
}

/// Takes all of them or none.
pub fn admit_questions(asked: &[String]) -> Result<Vec<AdmittedQuestion>, QuestionError> {
    if asked.is_empty() {
        return Err(QuestionError::None);
    }
    if asked.len() > MAX_QUESTIONS {
        return Err(QuestionError::TooMany(asked.len()));
    }
    (1..).zip(asked).map(|(number, text)| admit(number, text)).collect()
}

fn admit(number: usize, text: &str) -> Result<AdmittedQuestion, QuestionError> {
    // Nothing is cut: who asks is there and can shorten, and half a question is another one.
    let chars = text.chars().count();
    if chars > MAX_QUESTION_CHARS {
        return Err(QuestionError::TooLong { number, chars });
    }
    let text = text.replace("\r\n", "\n");
    let seen: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    if !seen.contains(char::is_alphanumeric) {
        return Err(QuestionError::Empty { number });
    }
    let invisible = text.chars().count() - seen.chars().count();
    let removed = Removed { invisible, ..Removed::default() };
    Ok(AdmittedQuestion { text: seen.trim().to_owned(), removed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(asked: &[&str]) -> Result<Vec<AdmittedQuestion>, QuestionError> {
        admit_questions(&asked.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn s_05_nothing_is_hidden_in_a_question() {
        let hidden = "  Who calls Vec<T>::pop\u{200B}?\r\n\tAnd `&lt;`?\u{1b}\u{202E}\n";
        let [question] = admitted(&[hidden]).unwrap().try_into().unwrap();
        assert_eq!(question.text, "Who calls Vec<T>::pop?\n\tAnd `&lt;`?");
        assert_eq!(question.removed, Removed { invisible: 3, ..Removed::default() });
        let again = admitted(&[&question.text]).unwrap();
        assert_eq!(again, [AdmittedQuestion { removed: Removed::default(), ..question }]);
    }

    #[test]
    fn s_07_questions_that_cannot_be_asked_are_refused_with_what_to_do() {
        let told = |asked: &[&str]| admitted(asked).unwrap_err().to_string();
        insta::assert_snapshot!(told(&[]), @"there is no question: give at least one, in words");
        insta::assert_snapshot!(told(&["Who?"; 50]), @"50 questions are more than the 20 that a run answers. Ask the rest in another run");
        for empty in ["", " \n", "\u{200B}", "???", "<!-- -->"] {
            assert_eq!(admitted(&["Who?", empty]), Err(QuestionError::Empty { number: 2 }), "{empty:?}");
        }
        insta::assert_snapshot!(told(&["Who?", &"why ".repeat(25_000)]), @"question 2 has 100000 characters, more than the 4000 that are read. Ask for one thing, and name files instead of quoting them");
        assert!(admitted(&[&"é".repeat(4_000)]).is_ok());
        assert_eq!(admitted(&["Who?"; 20]).map(|all| all.len()), Ok(20));
    }
}
