use std::time::Duration;

use kettle::{format, parse, ParseError, Reason};

#[test]
fn short_units_are_read() {
    assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5_400)));
    assert_eq!(parse("2d12h"), Ok(Duration::from_secs(216_000)));
    assert_eq!(parse(" 45 s "), Ok(Duration::from_secs(45)));
}

#[test]
fn errors_say_where() {
    assert_eq!(parse("  "), Err(ParseError { at: 0, reason: Reason::Empty }));
    assert_eq!(parse("1h x"), Err(ParseError { at: 3, reason: Reason::NoNumber }));
    assert_eq!(parse("10 parsecs"), Err(ParseError { at: 3, reason: Reason::NoUnit }));
}

#[test]
fn durations_are_written() {
    assert_eq!(format(Duration::from_secs(90)), "1m 30s");
    assert_eq!(format(Duration::ZERO), "0s");
    assert_eq!(format(Duration::from_millis(1_250)), "1s 250ms");
}
