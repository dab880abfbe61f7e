/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) millis: u64,
}

const fn unit(name: &'static str, millis: u64) -> Unit {
    Unit { name, millis }
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Every name that `parse` understands.
pub(crate) const UNITS: [Unit; 11] = [
    unit("d", DAY),
    unit("day", DAY),
    unit("days", DAY),
    unit("h", HOUR),
    unit("hr", HOUR),
    unit("hour", HOUR),
    unit("hours", HOUR),
    unit("m", MINUTE),
    unit("min", MINUTE),
    unit("s", SECOND),
    unit("sec", SECOND),
];

/// The names that `format` writes, largest first.
pub(crate) const WRITTEN: [Unit; 5] =
    [unit("d", DAY), unit("h", HOUR), unit("m", MINUTE), unit("s", SECOND), unit("ms", 1)];

/// Takes the unit that `text` begins with, and gives what follows it.
pub(crate) fn take_unit(text: &str) -> Option<(Unit, &str)> {
    UNITS
        .iter()
        .find_map(|unit| text.strip_prefix(unit.name).map(|rest| (*unit, rest)))
}
