//! Texts of the operator with places for an instance's values: `--repo`, `--image`, `--scorer`.

use std::path::Path;

/// A text with `{name}` in it. Every name was known when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {reason}")]
pub struct TemplateError {
    pub text: String,
    pub reason: String,
}

impl Template {
    /// `names` are the places that may be named.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, TemplateError> {
        for place in places(text) {
            if !names.contains(&place) {
                let known: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
                let reason = format!("there is no {{{place}}}; there are {}", known.join(", "));
                return Err(TemplateError { text: text.to_owned(), reason });
            }
        }
        Ok(Self(text.to_owned()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// A path, below a folder where it is relative.
    pub fn below(self, folder: &Path) -> Self {
        Self(folder.join(self.0).to_string_lossy().into_owned())
    }

    pub fn names(&self, place: &str) -> bool {
        places(&self.0).any(|name| name == place)
    }

    /// Puts the values in, once: a value that looks like a place stays as it is. `None` where a place has no
    /// value.
    pub fn fill<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
        let mut filled = String::new();
        let mut rest = self.0.as_str();
        while let Some((before, name, after)) = next_place(rest) {
            filled.push_str(before);
            filled.push_str(value(name)?);
            rest = after;
        }
        Some(filled + rest)
    }
}

fn places(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, name, after) = next_place(rest)?;
        rest = after;
        Some(name)
    })
}

/// The first place of a text, and what stands around it. Braces around anything but a name are text.
fn next_place(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text[from..].find('{')?;
        let after = &text[open + 1..];
        if let Some(close) = after.find(|c: char| !c.is_ascii_lowercase() && c != '_')
            && close > 0
            && after[close..].starts_with('}')
        {
            return Some((&text[..open], &after[..close], &after[close + 1..]));
        }
        from = open + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_in_once() {
        let template = Template::parse("a{repo}/{{name}}/{x", &["repo", "name"]).unwrap();
        let value = |name: &str| match name {
            "repo" => Some("{name}"),
            "name" => Some("n"),
            _ => None,
        };
        assert_eq!(template.fill(value).unwrap(), "a{name}/{n}/{x");
        assert_eq!(template.fill(|_| None), None);
        assert!(template.names("name") && !template.names("x"));
    }

    #[test]
    fn a_place_that_is_not_there_is_told() {
        let error = Template::parse("swe:{verson}", &["repo", "version"]).unwrap_err();
        insta::assert_snapshot!(error, @r#""swe:{verson}": there is no {verson}; there are {repo}, {version}"#);
        assert!(Template::parse("{} {A} {1}", &[]).is_ok());
    }
}
