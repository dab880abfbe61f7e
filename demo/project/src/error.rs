use std::fmt;

/// Why a text is no duration, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// Offset in bytes from the beginning of the text that was given to `parse`.
    pub at: usize,
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The text is empty, or only white space.
    Empty,
    /// A number was expected.
    NoNumber,
    /// A unit was expected after a number.
    NoUnit,
    /// The number, or the sum, does not fit.
    TooLarge,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            Reason::Empty => "no duration",
            Reason::NoNumber => "expected a number",
            Reason::NoUnit => "expected a unit",
            Reason::TooLarge => "too large",
        };
        write!(f, "{what} at byte {}", self.at)
    }
}

impl std::error::Error for ParseError {}
