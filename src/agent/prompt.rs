//! Every prompt, rendered. The texts lie in `prompts/`, one file each; no prompt text stands in Rust.
//!
//! A template's first line is a comment that says who reads it and which variables it gets; a test
//! holds the two to each other. Tool descriptions are prompts too: JSON with the same header.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, Value, syntax::SyntaxConfig};

use crate::method::ports::ToolSpec;

macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../prompts/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = embed![
    "agent/compact.md",
    "agent/compacted.md",
    "agent/interrupted.md",
    "agent/last_call.md",
    "agent/malformed_call.md",
    "agent/nearly_over.md",
    "agent/no_call.md",
    "agent/not_run.md",
    "agent/observation.md",
    "agent/sandbox_limit.md",
    "agent/sandbox_lost.md",
    "agent/sandbox_restarted.md",
    "agent/time_over.md",
    "agent/truncated.md",
    "agent/unknown_tool.md",
    "answerer/asked.md",
    "answerer/citing.md",
    "answerer/returned.md",
    "answerer/system.md",
    "answerer/task.md",
    "answerer/uncategorised.md",
    "doctor/report.json",
    "doctor/task.md",
    "proposal/system.md",
    "proposal/task.md",
    "bench/judge_again.md",
    "bench/judge_question.md",
    "bench/judge_set.md",
    "questioner/again.md",
    "questioner/free.md",
    "questioner/system.md",
    "questioner/task.md",
    "resolver/knowledge.md",
    "resolver/system.md",
    "resolver/task.md",
    "shared/baseline.md",
    "shared/environment.md",
    "shared/instructions.md",
    "shared/issue.md",
    "tools/bash.json",
    "tools/submit_answer.json",
    "tools/submit_patch.json",
    "tools/text_mode.md",
    "tools/text_mode_result.md",
    "tools/text_mode_unreadable.md",
];

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut all = Environment::new();
    all.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    all.set_syntax(syntax.expect("the delimiters are the default ones"));
    for (name, text) in FILES {
        all.add_template(name, text).expect("the templates are part of the program and a test renders each");
    }
    all
});

/// Renders a template of `prompts/`.
///
/// # Panics
/// When the template does not exist or a variable is missing, which a test would have shown.
pub fn render(name: &str, variables: Value) -> String {
    let template = TEMPLATES.get_template(name).expect("callers name templates that exist");
    let text = template.render(variables).expect("callers give the variables that the header names");
    text.trim().to_owned()
}

/// A tool's specification from `prompts/tools/`.
pub fn tool_spec(name: &str, variables: Value) -> ToolSpec {
    serde_json::from_str(&render(name, variables))
        .expect("tool descriptions are valid JSON; a test reads each")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    fn files_below(folder: &Path, root: &Path, into: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, root, into);
            } else {
                into.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_in_prompts_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("prompts");
        let mut there = BTreeSet::new();
        files_below(&root, &root, &mut there);
        let embedded: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, embedded);
    }

    #[test]
    fn headers_name_the_reader_and_exactly_the_variables_used() {
        for (name, text) in FILES {
            let header = text.lines().next().unwrap_or_default();
            let header = header
                .strip_prefix("{# reads: ")
                .and_then(|h| h.strip_suffix(" #}"))
                .unwrap_or_else(|| panic!("{name} has no header"));
            let (_, variables) =
                header.split_once(" · variables: ").unwrap_or_else(|| panic!("{name}: {header}"));
            let named: BTreeSet<String> =
                variables.split(", ").filter(|v| *v != "none").map(str::to_owned).collect();
            let used: BTreeSet<String> =
                TEMPLATES.get_template(name).unwrap().undeclared_variables(false).into_iter().collect();
            assert_eq!(named, used, "{name}");
        }
    }
}
