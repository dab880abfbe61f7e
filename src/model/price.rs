//! List prices of well-known models, for the money limits and the accounts of a run.
//!
//! `prices.json` is a dated extract of the public table in the Python package `litellm`. A wrong price is
//! worse than none, so:
//! - a name is found only as it stands there, with or without its maker in front (`openai/gpt-5-mini`).
//!   Nothing is cut off: snapshots of one model have had different prices (`gpt-4o-2024-05-13`), and names
//!   that move to a newer model (`…-latest`) are not listed;
//! - models whose price depends on the prompt's length are not listed, since [`Price`] cannot say that;
//! - what Anthropic charges for writing to its cache is the price of an entry that lives five minutes, which is
//!   the kind that is asked for.
//!
//! The settings' own `price` goes before this table.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::domain::Price;

#[derive(Deserialize)]
struct Table {
    models: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    maker: String,
    names: Vec<String>,
    input: f64,
    cached: f64,
    cache_write: Option<f64>,
    output: f64,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("prices.json"))
        .expect("the file is part of the program, and a unit test reads it")
});

/// What the model's maker asks for it; `None` where that is not known for certain.
pub fn list_price(model: &str) -> Option<Price> {
    let &Listed { input, cached, cache_write, output, .. } = listed(model)?;
    Some(Price { input, cached, cache_write, output })
}

fn listed(model: &str) -> Option<&'static Listed> {
    let (maker, name) = match model.split_once('/') {
        Some((maker, name)) => (Some(maker), name),
        None => (None, model),
    };
    TABLE.models.iter().find(|listed| {
        maker.is_none_or(|maker| maker == listed.maker) && listed.names.iter().any(|known| known == name)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_found_exactly_or_with_their_maker_in_front() {
        let mini = Price { input: 0.25, cached: 0.025, cache_write: None, output: 2.0 };
        for name in ["gpt-5-mini", "openai/gpt-5-mini", "gpt-5-mini-2025-08-07"] {
            assert_eq!(list_price(name), Some(mini), "{name}");
        }
        for name in [
            "",
            "gpt-5-mini-2031-01-01",
            "gpt-5-mini:free",
            "GPT-5-mini",
            "gpt-5-min",
            "other/gpt-5-mini",
            "deepseek/gpt-5-mini",
            "openrouter/openai/gpt-5-mini",
            "gpt-4o-latest",
        ] {
            assert_eq!(list_price(name), None, "{name}");
        }
    }

    #[test]
    fn a_snapshot_keeps_its_own_price() {
        let output = |name| list_price(name).unwrap().output;
        assert_eq!((output("gpt-4o"), output("gpt-4o-2024-05-13")), (10.0, 15.0));
    }

    #[test]
    fn writing_to_the_cache_has_a_price_of_its_own_where_it_is_charged() {
        let opus = Price { input: 4.0, cached: 0.2, cache_write: Some(5.0), output: 20.0 };
        assert_eq!(list_price("claude-opus-5-5"), Some(opus));
        for listed in &TABLE.models {
            let charged = listed.cache_write.is_some_and(|write| write > listed.input);
            assert_eq!(charged, matches!(&*listed.maker, "anthropic" | "minimax"), "{:?}", listed.names);
        }
    }

    #[test]
    fn the_table_names_each_model_once_and_no_price_is_absurd() {
        let mut seen = HashSet::new();
        for listed in &TABLE.models {
            for name in &listed.names {
                assert!(seen.insert(name), "{name} stands there twice");
            }
            let (fresh, cached, output) = (listed.input, listed.cached, listed.output);
            assert!(
                0.0 < cached && cached <= fresh && fresh <= output && output < 100.0,
                "{:?}",
                listed.names
            );
            assert!(listed.cache_write.is_none_or(|write| write <= 2.0 * fresh), "{:?}", listed.names);
        }
        assert!(seen.len() > 40);
    }
}
