//! The figures that `scripts/bench` and `scripts/prove` print: one JSON line a row.

#![allow(dead_code, reason = "each target uses a part of it")]

use serde::{Serialize, Serializer};

/// One figure beside its target.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// `None` where it could not be measured; `peer` says why.
    #[serde(serialize_with = "plainly")]
    pub value: Option<f64>,
    pub unit: &'static str,
    /// Whom it is compared with, or why that one is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plainly")]
    pub peer_value: Option<f64>,
    /// How many times the peer's value is of ours.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plainly")]
    pub ratio: Option<f64>,
    /// Such as `<= 3`; `None` on a row that only tells.
    pub target: Option<String>,
    pub ok: bool,
}

impl Row {
    /// A figure that may be at most `most`.
    pub fn at_most(name: &str, value: f64, unit: &'static str, most: f64) -> Self {
        Self { target: Some(format!("<= {most}")), ok: value <= most, ..Self::told(name, value, unit) }
    }

    /// A figure that must be at least `least`.
    pub fn at_least(name: &str, value: f64, unit: &'static str, least: f64) -> Self {
        Self { target: Some(format!(">= {least}")), ok: value >= least, ..Self::told(name, value, unit) }
    }

    /// The same beside the peer's value, in the same unit.
    pub fn beside(self, peer: &str, peer_value: f64) -> Self {
        let ratio = self.value.map(|value| rounded(peer_value / value));
        Self { peer: Some(peer.to_owned()), peer_value: Some(rounded(peer_value)), ratio, ..self }
    }

    /// A figure without a target.
    pub fn told(name: &str, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(rounded(value)),
            unit,
            peer: None,
            peer_value: None,
            ratio: None,
            target: None,
            ok: true,
        }
    }

    pub fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("numbers and strings are always JSON"));
    }
}

/// Counts without a fraction.
fn plainly<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => to.serialize_i64(*value as i64),
        other => other.serialize(to),
    }
}

/// To what a reader needs.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The middle one, or what lies between the two middle ones.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
