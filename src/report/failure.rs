//! What is said of a run that failed. Errors are sorted by who must act: whoever wrote the issue, whoever
//! runs the service, or nobody but time.

use super::{inert::inert_line, markdown::code_span, run::RunFacts};

/// Longest message that is shown, in characters.
const MAX_MESSAGE: usize = 2_000;

/// A run's end by an error.
#[derive(Debug, Clone)]
pub struct FailureInput<'a> {
    /// As `run.json` has it, such as `model_unauthorized`.
    pub class: &'a str,
    /// The error's own words.
    pub message: &'a str,
    /// The stage that failed; `None` before the first.
    pub stage: Option<&'a str>,
    /// Stages whose output is stored, and which a resumed run skips.
    pub finished: &'a [&'a str],
    pub run: RunFacts<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Author,
    Operator,
    /// Trying again later may be enough.
    Time,
}

/// Who must act on an error of this class, and what to do.
fn advice(class: &str) -> (Actor, &'static str) {
    match class {
        "issue_empty" | "issue_only_images" | "issue_too_large" | "issue_not_utf8" => {
            (Actor::Author, "Edit the issue, then start again.")
        }
        "repository_input" => {
            (Actor::Author, "Check the repository, the base and the issue that were given.")
        }
        "repository_authentication" => {
            (Actor::Operator, "Check that the credentials may read this repository.")
        }
        "repository_limit" => {
            (Actor::Operator, "Raise the limit in the settings if this repository is meant to be worked on.")
        }
        "model_unauthorized" => (Actor::Operator, "Check the key of the model endpoint in the settings."),
        "model_unreachable" => {
            (Actor::Operator, "Check the address of the model endpoint, and that it runs.")
        }
        "model_refused" | "model_not_a_reply" => {
            (Actor::Operator, "Check the model's name and the address of its endpoint in the settings.")
        }
        "model_unavailable" | "model_timeout" => {
            (Actor::Time, "The model's provider is busy or down. Try again later.")
        }
        "no_questions" => {
            (Actor::Time, "The model gave no usable question. Try again, or set another model.")
        }
        "context_overflow" => (Actor::Operator, "Set a model with a larger context."),
        "replay" => (Actor::Operator, "The recorded replies belong to other prompts: record them anew."),
        "sandbox_unavailable" => (Actor::Operator, "Check that the sandbox's engine and image are there."),
        "sandbox_lost" => (Actor::Time, "The sandbox was lost. Resume the run."),
        "sandbox_limit" => (Actor::Operator, "Raise the limits of the sandbox in the settings."),
        "patch_too_large" | "patch_removes_all" => {
            (Actor::Author, "Look at what was changed in the run's trajectory.")
        }
        "run_state" => (Actor::Operator, "Check that the run's folder can be written and has room."),
        _ => (Actor::Operator, "Look into the log of this run."),
    }
}

/// Markdown for the issue. Says what failed, who must act, what to do, and what is not lost.
pub fn failure(input: &FailureInput<'_>) -> String {
    let (actor, advice) = advice(input.class);
    let stage = input.stage.map(|stage| format!(" in the stage {}", code_span(stage))).unwrap_or_default();
    let who = match actor {
        Actor::Author => "This is for whoever wrote or named the issue.",
        Actor::Operator => "This is for whoever runs acquire here.",
        Actor::Time => "Nobody needs to change anything.",
    };
    let kept = match input.finished {
        [] => String::new(),
        stages => {
            let stages: Vec<String> = stages.iter().map(|stage| code_span(stage)).collect();
            format!(
                "\n\nNothing that was finished is lost: {} will not be done or paid again when the run is resumed.",
                stages.join(", ")
            )
        }
    };
    let message: String = input.message.chars().take(MAX_MESSAGE).collect();
    format!(
        "## The run failed{stage}\n\n> {}\n\n{who} {advice}{kept}\n\n{}\n",
        inert_line(&message),
        input.run.footer()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gate::{harvest::HarvestError, intake::IntakeError},
        method::ports::ModelError,
        report::sample::Sample,
    };

    fn shown(class: &str, message: &str, stage: Option<&str>, finished: &[&str]) -> String {
        let sample = Sample::new();
        let text = failure(&FailureInput { class, message, stage, finished, run: sample.run() });
        text.split("\n\n---").next().unwrap().to_owned()
    }

    #[test]
    fn failures_say_who_must_act_and_what_is_kept() {
        let unauthorized = ModelError::Unauthorized {
            url: "https://api.example/v1".into(),
            status: 401,
            message: "bad key, ask @octocat".into(),
        };
        let busy = ModelError::TimedOut {
            url: "https://api.example/v1".into(),
            after: std::time::Duration::from_secs(600),
            tries: 5,
        };
        let all = [
            shown(IntakeError::OnlyImages.class(), &IntakeError::OnlyImages.to_string(), None, &[]),
            shown(unauthorized.class(), &unauthorized.to_string(), Some("question"), &["prepare"]),
            shown(busy.class(), &busy.to_string(), Some("resolve"), &["prepare", "question", "answer"]),
            shown("new_class", "something\n\n# else", Some("answer"), &[]),
        ];
        insta::assert_snapshot!(all.join("\n\n~~~~~~~~\n\n"));
    }

    #[test]
    fn every_class_of_the_errors_we_know_has_its_own_advice() {
        let url = || "u".to_owned();
        let models = [
            ModelError::Unreachable { url: url(), reason: url() },
            ModelError::Unauthorized { url: url(), status: 401, message: url() },
            ModelError::Unavailable { url: url(), status: 500, tries: 1, message: url() },
            ModelError::TimedOut { url: url(), after: std::time::Duration::ZERO, tries: 1 },
            ModelError::ContextOverflow { message: url() },
            ModelError::Refused { url: url(), status: 400, message: url() },
            ModelError::NotAReply { url: url(), tries: 1, what: url() },
            ModelError::Replay(url()),
        ];
        let intake = [
            IntakeError::Empty,
            IntakeError::OnlyImages,
            IntakeError::FileTooLarge { bytes: 2, limit: 1 },
            IntakeError::NotUtf8 { line: 1 },
        ];
        let harvest = [
            HarvestError::TooManyEntries { count: 2, limit: 1 },
            HarvestError::TooManyBytes { bytes: 2, limit: 1 },
            HarvestError::NothingLeft,
        ];
        let classes = models.iter().map(ModelError::class);
        let classes =
            classes.chain(intake.iter().map(IntakeError::class)).chain(harvest.iter().map(|one| one.class()));
        for class in classes {
            assert_ne!(advice(class), advice("unknown"), "{class}");
        }
    }
}
