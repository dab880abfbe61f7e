//! Where the questions of a person come from, and what of them is asked.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use crate::{
    gate::questions::{AdmittedQuestion, MAX_QUESTION_CHARS, MAX_QUESTIONS, admit_questions},
    report,
};

use super::{
    StartError,
    inputs::{KnowledgeKind, Request},
};

/// More than all questions of a run can have (four bytes a character, and line ends); what is larger holds
/// something else.
const MAX_FILE_BYTES: u64 = (MAX_QUESTIONS * (MAX_QUESTION_CHARS * 4 + 2)) as u64;

/// The questions of a file, one a line.
pub fn questions_from_file(path: &Path) -> Result<Vec<String>, StartError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
    questions_in(file, &name)
}

/// The questions on standard input, one a line.
pub fn questions_from_stdin() -> Result<Vec<String>, StartError> {
    questions_in(io::stdin().lock(), "standard input")
}

fn questions_in(from: impl Read, name: &str) -> Result<Vec<String>, StartError> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let text = format!(
            "{name} is larger than the {MAX_FILE_BYTES} bytes that are read. Give a text with one question a line"
        );
        return Err(StartError::usage("question_file", text));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        StartError::usage("question_file", format!("{name} is not UTF-8 in line {line}. Save it as UTF-8"))
    })?;
    let lines = text.trim_start_matches('\u{FEFF}').lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn unreadable(name: &str, error: &io::Error) -> StartError {
    let text = format!("{name} cannot be read: {error}. Give a text file with one question a line");
    StartError::usage("question_file", text)
}

/// The questions of a request as models may read them; none where a Questioner asks.
pub fn admitted(request: &Request) -> Result<Vec<AdmittedQuestion>, StartError> {
    if request.knowledge != KnowledgeKind::Asked {
        return Ok(Vec::new());
    }
    admit_questions(&request.asked).map_err(|error| StartError::usage(error.class(), error))
}

/// What people should know of questions that are asked otherwise than they were written.
pub fn notices(asked: &[AdmittedQuestion]) -> Vec<String> {
    let changed = (1..).zip(asked).filter(|(_, question)| !question.removed.is_empty());
    changed.map(|(number, question)| report::removed_from_question(number, &question.removed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<String>, String> {
        questions_in(bytes, "q.txt").map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_is_a_question() {
        assert_eq!(read("\u{FEFF}Who?\r\n\n  Why?  ".as_bytes()).unwrap(), ["Who?", "Why?"]);
        assert_eq!(read(b"\n \n").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn s_07_what_is_no_list_of_questions_is_refused() {
        insta::assert_snapshot!(read(b"Who?\ncaf\xe9").unwrap_err(), @"q.txt is not UTF-8 in line 2. Save it as UTF-8");
        insta::assert_snapshot!(read(&vec![b'a'; 1 << 20]).unwrap_err(), @"q.txt is larger than the 320040 bytes that are read. Give a text with one question a line");
        let told = questions_from_file(Path::new("/nonexistent/q.txt")).unwrap_err().to_string();
        assert!(told.starts_with("/nonexistent/q.txt cannot be read: "), "{told}");
    }
}
