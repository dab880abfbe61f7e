//! What the run was made with, in one small line under every text.

use crate::{
    domain::{Account, CommitId, RepoId, RunId},
    gate::shown,
};

use super::markdown::{code_span, details, link};

/// What a footer tells.
#[derive(Debug, Clone)]
pub struct RunFacts<'a> {
    pub run_id: &'a RunId,
    /// Of this program.
    pub version: &'a str,
    /// Role and model, such as `("Resolver", "gpt-5-mini")`; roles that share a model are told together.
    pub models: &'a [(&'a str, &'a str)],
    pub account: Account,
    /// Where it is not, the money is left out instead of being told as zero.
    pub price_known: bool,
    pub commit: &'a CommitId,
    /// Absent for a local repository.
    pub repo: Option<&'a RepoId>,
}

impl RunFacts<'_> {
    /// The commit, as a link where the repository is on the web.
    pub(super) fn commit_link(&self) -> String {
        let url = self.repo.map(|repo| format!("{repo}/commit/{}", self.commit));
        link(&format!("`{}`", self.commit.short()), url.as_deref())
    }

    /// One line, and the rest to unfold.
    pub(super) fn footer(&self) -> String {
        let Account { steps, seconds, usd, tokens } = self.account;
        let money = if self.price_known { usd.to_string() } else { "price unknown".to_owned() };
        let summary = format!("acquire {} · {money} · {}", self.version, duration(seconds));
        let mut models: Vec<(Vec<&str>, &str)> = Vec::new();
        for (role, model) in self.models {
            match models.iter_mut().find(|(_, known)| known == model) {
                Some((roles, _)) => roles.push(role),
                None => models.push((vec![role], model)),
            }
        }
        let mut lines: Vec<String> = models
            .into_iter()
            .map(|(roles, model)| format!("- {}: {}", roles.join(", "), code_span(model)))
            .collect();
        lines.push(format!(
            "- Model calls: {}; tokens: {} in, of which {} cached, and {} out",
            shown::number(steps.into()),
            shown::number(tokens.input),
            shown::number(tokens.cached),
            shown::number(tokens.output)
        ));
        lines.push(format!("- Commit: {}", self.commit_link()));
        lines.push(format!("- Run: `{}`", self.run_id));
        format!("---\n\n{}", details(&summary, &lines.join("\n")))
    }
}

/// `48 s`, `2 min 5 s`, `1 h 3 min`.
fn duration(seconds: f64) -> String {
    match seconds.max(0.0).round() as u64 {
        all @ 0..60 => format!("{all} s"),
        all @ 60..3_600 => format!("{} min {} s", all / 60, all % 60),
        all => format!("{} h {} min", all / 3_600, all % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_as_people_tell_them() {
        assert_eq!([0.2, 59.4, 125.0, 3_780.0].map(duration), ["0 s", "59 s", "2 min 5 s", "1 h 3 min"]);
    }
}
