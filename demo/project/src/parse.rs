use std::time::Duration;

use crate::error::{ParseError, Reason};
use crate::units::take_unit;

/// Reads a duration such as `1h 30m`.
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    let mut rest = text.trim_start();
    let at = |rest: &str| text.len() - rest.len();
    if rest.is_empty() {
        return Err(ParseError { at: 0, reason: Reason::Empty });
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = take_number(rest).map_err(|reason| ParseError { at: at(rest), reason })?;
        let after = after.trim_start();
        let Some((unit, next)) = take_unit(after) else {
            return Err(ParseError { at: at(after), reason: Reason::NoUnit });
        };
        total = number
            .checked_mul(unit.millis)
            .and_then(|millis| total.checked_add(millis))
            .ok_or(ParseError { at: at(rest), reason: Reason::TooLarge })?;
        rest = next.trim_start();
    }
    Ok(Duration::from_millis(total))
}

/// Takes the digits that `text` begins with, and gives what follows them.
fn take_number(text: &str) -> Result<(u64, &str), Reason> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Err(Reason::NoNumber);
    }
    let number = digits.parse().map_err(|_| Reason::TooLarge)?;
    Ok((number, rest))
}
