//! Turns what figment says of a value into words for an operator.

use figment::{
    Figment,
    error::{Actual, Kind},
};

use super::{ConfigError, error};

pub struct Explainer<'a> {
    pub figment: &'a Figment,
    /// All keys and sections that have a default.
    pub known: &'a [String],
}

impl Explainer<'_> {
    /// Where a key got its value.
    pub fn place(&self, key: &str) -> String {
        let source = self.figment.find_metadata(key);
        source.map_or_else(|| "the defaults".to_owned(), |metadata| metadata.name.to_string())
    }

    /// Never quotes what a key's value was.
    pub fn explain(&self, error: &figment::Error) -> ConfigError {
        let key = error.path.join(".");
        if let Kind::UnknownField(_, siblings) = &error.kind {
            return self.unknown_key(key, siblings);
        }
        let (found, expected) = match &error.kind {
            Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
                (describe(found), plain(expected))
            }
            Kind::UnknownVariant(found, expected) => (format!("{found:?}"), one_of(expected)),
            Kind::ISizeOutOfRange(found) => (found.to_string(), "a smaller number".into()),
            Kind::USizeOutOfRange(found) => (found.to_string(), "a smaller number".into()),
            Kind::MissingField(field) => ("incomplete".into(), format!("a table that has `{field}` too")),
            other => (format!("no such value ({other})"), "another".into()),
        };
        let found = if key.ends_with("api_key") { "of another type".to_owned() } else { found };
        ConfigError::WrongValue { place: self.place(&key), key, found, expected }
    }

    fn unknown_key(&self, key: String, siblings: &[&str]) -> ConfigError {
        let place = self.place(&key);
        let section = key.rsplit_once('.').map(|(section, _)| section);
        let siblings: Vec<String> = siblings
            .iter()
            .map(|name| section.map_or(name.to_string(), |section| format!("{section}.{name}")))
            .collect();
        let all = self.known.iter().chain(&siblings).map(String::as_str);
        let nearest = error::nearest(&key, all).unwrap_or_default();
        let nearest = if place.starts_with("the variable ") {
            format!("`{nearest}`, as a variable {}", error::variable(nearest))
        } else {
            format!("`{nearest}`")
        };
        ConfigError::UnknownKey { key, place, nearest }
    }
}

fn describe(found: &Actual) -> String {
    match found {
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(value) => value.to_string(),
        Actual::Signed(value) => value.to_string(),
        Actual::Float(value) => value.to_string(),
        Actual::Char(value) => format!("{:?}", value.to_string()),
        Actual::Str(value) => format!("{:?}", value.chars().take(40).collect::<String>()),
        Actual::Seq => "a list".into(),
        Actual::Map => "a table".into(),
        Actual::Unit | Actual::Option => "nothing".into(),
        other => other.to_string(),
    }
}

/// Names of Rust types mean nothing to an operator.
fn plain(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 up".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "string" | "path string" => "text".into(),
        "option" => "a value".into(),
        struct_name if struct_name.starts_with("struct") => "a table".into(),
        other => other.to_owned(),
    }
}

fn one_of(expected: &[&str]) -> String {
    let quoted: Vec<String> = expected.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(" or ")
}
