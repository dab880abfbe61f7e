//! The arms that a bench compares: a knowledge source and how much it asks.

use std::fmt;

use clap::ValueEnum;

use crate::runs::KnowledgeKind;

/// Knowledge sources that ask no questions; any other is run once for each number of them. Named as on the
/// command line.
const WITHOUT_QUESTIONS: [&str; 2] = ["none", "proposal"];

/// One way to run every instance. Shown as `none`, `qa-2`, `proposal`, …, which also names its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arm {
    pub knowledge: KnowledgeKind,
    /// 0 for a source that asks none.
    pub questions: usize,
}

impl Arm {
    fn of(knowledge: KnowledgeKind, questions: usize) -> Self {
        if WITHOUT_QUESTIONS.contains(&name(knowledge).as_str()) {
            Self { knowledge, questions: 0 }
        } else if questions == 0 {
            Self { knowledge: KnowledgeKind::None, questions: 0 }
        } else {
            Self { knowledge, questions }
        }
    }

    /// Every source with every number of questions, in the order given; what comes to the same is run once.
    pub fn all(knowledge: &[KnowledgeKind], questions: &[usize]) -> Vec<Self> {
        let mut arms = Vec::new();
        for source in knowledge {
            for number in questions {
                let arm = Self::of(*source, *number);
                if !arms.contains(&arm) {
                    arms.push(arm);
                }
            }
        }
        arms
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name(self.knowledge);
        if self.questions == 0 { f.write_str(&name) } else { write!(f, "{name}-{}", self.questions) }
    }
}

fn name(kind: KnowledgeKind) -> String {
    let value = kind.to_possible_value().expect("every source can be named on the command line");
    value.get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(knowledge: &[KnowledgeKind], questions: &[usize]) -> Vec<String> {
        Arm::all(knowledge, questions).iter().map(Arm::to_string).collect()
    }

    #[test]
    fn arms_are_sources_by_questions_and_each_is_there_once() {
        use KnowledgeKind::{None, Qa};
        assert_eq!(names(&[None, Qa], &[2]), ["none", "qa-2"]);
        assert_eq!(names(&[Qa], &[0, 1, 2]), ["none", "qa-1", "qa-2"]);
        assert_eq!(names(&[None, Qa, Qa], &[0, 3, 3]), ["none", "qa-3"]);
        assert_eq!(names(&[Qa, None], &[1, 0]), ["qa-1", "none"]);
    }
}
