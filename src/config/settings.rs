//! The sections of `acquire.toml` and their defaults.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Environment, ModelSection};

/// All settings of an operator. Every key may also come as `ACQUIRE_SECTION__KEY`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub model: ModelSection,
    pub method: MethodSection,
    pub limits: LimitsSection,
    pub sandbox: SandboxSection,
    pub git: GitSection,
    pub paths: PathsSection,
}

/// How the method is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodSection {
    /// Questions asked before a repair, from 0 to 8; 0 repairs without knowledge.
    pub questions: u32,
    /// Seconds that the project's tests may take before any change; 0 does not run them.
    pub baseline_seconds: u64,
    pub temperature: Temperatures,
}

impl Default for MethodSection {
    fn default() -> Self {
        Self { questions: 2, baseline_seconds: 120, temperature: Temperatures::default() }
    }
}

/// Sampling temperatures, from 0 to 2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Temperatures {
    pub questioner: f64,
    pub answerer: f64,
    pub resolver: f64,
}

impl Default for Temperatures {
    fn default() -> Self {
        Self { questioner: 0.7, answerer: 0.0, resolver: 0.0 }
    }
}

/// What agents and runs may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Replies in a row that cannot be understood before an agent is ended.
    pub format_errors: u32,
    /// Characters of a command's output that a model is shown; of longer output the beginning and the end.
    pub observation_chars: usize,
    /// Of one Answerer.
    pub answerer: AgentLimits,
    pub resolver: AgentLimits,
    /// Of all agents together.
    pub run: RunLimits,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            format_errors: 3,
            observation_chars: 10_000,
            answerer: AgentLimits {
                steps: 150,
                usd: 2.0,
                seconds: 1_800,
                command_seconds: 120,
                tokens: 3_000_000,
            },
            resolver: AgentLimits {
                steps: 250,
                usd: 3.0,
                seconds: 3_600,
                command_seconds: 360,
                tokens: 3_000_000,
            },
            run: RunLimits { usd: 10.0, seconds: 7_200 },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLimits {
    /// Model calls.
    pub steps: u32,
    /// US dollars.
    pub usd: f64,
    /// Wall-clock seconds.
    pub seconds: u64,
    /// Seconds that one command may take.
    pub command_seconds: u64,
    /// Input and output tokens; stand in for money where the model's price is unknown.
    pub tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// US dollars.
    pub usd: f64,
    /// Wall-clock seconds.
    pub seconds: u64,
}

/// Where commands of agents run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSection {
    pub kind: SandboxKind,
    /// Docker image, where `--image` names none.
    pub image: String,
    /// The engine's socket as `unix:///path`; by default what `DOCKER_HOST` says, else the usual one.
    pub host: Option<String>,
    /// MiB of memory of one sandbox.
    pub memory_mib: u64,
    /// Processors of one sandbox; a fraction is allowed.
    pub cpus: f64,
    /// Processes and threads of one sandbox.
    pub pids: u32,
    /// MiB of `/tmp`.
    pub tmp_mib: u64,
    /// MiB of `/workspace`; by default three times the repository's tree, at least 512.
    pub workspace_mib: Option<u64>,
}

impl Default for SandboxSection {
    fn default() -> Self {
        Self {
            kind: SandboxKind::Auto,
            image: "acquire-sandbox:1".to_owned(),
            host: None,
            memory_mib: 4_096,
            cpus: 2.0,
            pids: 512,
            tmp_mib: 256,
            workspace_mib: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// Docker where an engine answers, else namespaces.
    Auto,
    Docker,
    Namespaces,
}

/// Limits on reading repositories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitSection {
    /// MiB that one fetch may receive.
    pub max_mib: u64,
    /// Seconds that one fetch may take.
    pub seconds: u64,
    /// MiB of packed history that agents get to read; older history is left out beyond it.
    pub history_mib: u64,
}

impl Default for GitSection {
    fn default() -> Self {
        Self { max_mib: 4_096, seconds: 900, history_mib: 64 }
    }
}

/// Folders of this program. Relative ones start at the working directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathsSection {
    /// Mirrors of repositories. Empty: `acquire` in `$XDG_CACHE_HOME`, or in `~/.cache`.
    pub cache: PathBuf,
    /// Where each run gets a folder, unless `--out` names one.
    pub runs: PathBuf,
}

impl Default for PathsSection {
    fn default() -> Self {
        Self { cache: PathBuf::new(), runs: ".acquire/runs".into() }
    }
}

impl Settings {
    /// The folder for mirrors, with what the environment says filled in.
    pub fn cache(&self, environment: &Environment) -> Result<PathBuf, ConfigError> {
        if !self.paths.cache.as_os_str().is_empty() {
            return Ok(environment.working_folder.join(&self.paths.cache));
        }
        let base = environment.home_folder("XDG_CACHE_HOME", ".cache");
        base.map(|base| base.join("acquire")).ok_or_else(|| ConfigError::Missing {
            key: "paths.cache".into(),
            why: "neither HOME nor XDG_CACHE_HOME is set".into(),
            example: "/var/cache/acquire".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use figment::providers::{Format, Toml};
    use serde_json::Value;

    use super::*;
    use crate::config::load;

    const EXAMPLE: &str = include_str!("../../acquire.example.toml");

    fn settings(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("example.toml");
        fs::write(&path, text).unwrap();
        let environment = Environment::new(folder.path().to_owned(), [] as [(&str, &str); 0]);
        load(Some(&path), &environment).unwrap_or_else(|error| panic!("{error}\n{text}")).settings
    }

    /// The example with its keys without a default switched on: `#key = …`, while prose is `# Prose.`
    fn everything() -> String {
        let lines = EXAMPLE.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn json(settings: &Settings) -> Value {
        serde_json::to_value(settings).unwrap()
    }

    /// Every key below a value, with `null` where it is not set.
    fn leaves(prefix: &str, value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| leaves(&format!("{prefix}.{name}"), value, into));
            }
            _ => {
                into.insert(prefix.to_owned());
            }
        }
    }

    #[test]
    fn the_example_says_the_defaults() {
        assert_eq!(json(&settings(EXAMPLE)), json(&Settings::default()));
        assert!(settings(EXAMPLE).model.api_key.is_none());
    }

    #[test]
    fn the_example_holds_every_key_and_no_other() {
        let text = everything();
        let (mut in_example, mut known) = (BTreeSet::new(), BTreeSet::new());
        leaves("", &Toml::from_str(&text).unwrap(), &mut in_example);
        leaves("", &json(&settings(&text)), &mut known);
        assert_eq!(in_example, known);
    }

    #[test]
    fn every_key_can_come_from_a_variable() {
        let expected = json(&settings(&everything()));
        let mut keys = BTreeSet::new();
        leaves("", &expected, &mut keys);
        let variables = keys.iter().filter_map(|key| {
            let value = match expected.pointer(&key.replace('.', "/")).unwrap() {
                Value::Null => return None,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some((format!("ACQUIRE_{}", key[1..].replace('.', "__").to_uppercase()), value))
        });
        let environment = Environment::new("/nowhere".into(), variables);
        let loaded = load(None, &environment).unwrap().settings;
        assert_eq!(json(&loaded), expected);
    }

    #[test]
    fn the_cache_lies_where_the_environment_says() {
        let at = |variables: &[(&str, &str)], cache: &str| {
            let environment = Environment::new("/start".into(), variables.iter().copied());
            let paths = PathsSection { cache: cache.into(), ..PathsSection::default() };
            Settings { paths, ..Settings::default() }.cache(&environment)
        };
        assert_eq!(at(&[("HOME", "/home/a")], "").unwrap(), Path::new("/home/a/.cache/acquire"));
        assert_eq!(at(&[("HOME", "/a"), ("XDG_CACHE_HOME", "/c")], "").unwrap(), Path::new("/c/acquire"));
        assert_eq!(
            at(&[("HOME", "/a"), ("XDG_CACHE_HOME", "c")], "").unwrap(),
            Path::new("/a/.cache/acquire")
        );
        assert_eq!(at(&[], "m").unwrap(), Path::new("/start/m"));
        insta::assert_snapshot!(at(&[], "").unwrap_err(), @"settings: `paths.cache` is not set and neither HOME nor XDG_CACHE_HOME is set; set it, for example by ACQUIRE_PATHS__CACHE=/var/cache/acquire");
    }
}
