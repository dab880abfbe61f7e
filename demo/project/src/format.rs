use std::time::Duration;

use crate::units::WRITTEN;

/// Writes a duration, such as `1m 30s`. Less than a millisecond is dropped; nothing left is `0s`.
pub fn format(duration: Duration) -> String {
    let mut millis = duration.as_millis();
    let mut parts = Vec::new();
    for unit in WRITTEN {
        let count = millis / u128::from(unit.millis);
        millis %= u128::from(unit.millis);
        if count > 0 {
            parts.push(format!("{count}{}", unit.name));
        }
    }
    if parts.is_empty() {
        return "0s".to_owned();
    }
    parts.join(" ")
}
