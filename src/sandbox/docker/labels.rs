//! Labels: how an engine's objects are known as ours, and whose they are.
//!
//! Everything that this room creates carries them, from the call that creates it. What does not carry
//! them all, in a shape that we write, is not ours and is never touched.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::domain::{InvalidName, RunId};

const APP: &str = "acquire.app";
const INSTANCE: &str = "acquire.instance";
const RUN: &str = "acquire.run";
const LEASE_UNTIL: &str = "acquire.lease_until";
const POSTURE: &str = "acquire.posture";

/// The filter under which an engine lists what any instance of acquire made.
pub(super) const OURS: &str = "acquire.app=acquire";

/// Identifier of one installation of acquire: a random name that lives in the operator's state folder.
/// Two installations on one engine tell their objects apart by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InstanceId(String);

impl InstanceId {
    /// # Errors
    /// [`InvalidName`] when it is not 1 to 64 of the characters `a`-`z`, `0`-`9` and `-`.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let fine = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fine {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidName {
                kind: "instance id",
                text: text.chars().take(200).collect(),
                reason: "1 to 64 lower-case letters, digits and '-'",
            })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whose an object is, and until when it is surely wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub instance: InstanceId,
    pub run: RunId,
    /// The start of the run and the longest that a run may take. An engine cannot change labels, so
    /// this is set once and never renewed.
    pub lease_until: Timestamp,
}

impl Owner {
    /// The labels of a volume.
    pub fn labels(&self) -> HashMap<String, String> {
        [
            (APP, "acquire".to_owned()),
            (INSTANCE, self.instance.as_str().to_owned()),
            (RUN, self.run.as_str().to_owned()),
            (LEASE_UNTIL, self.lease_until.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }

    /// The labels of a container, which also say how it is confined.
    pub fn container_labels(&self, posture: &str) -> HashMap<String, String> {
        let mut labels = self.labels();
        labels.insert(POSTURE.to_owned(), posture.to_owned());
        labels
    }

    /// `None` unless the labels are ours and complete.
    pub fn from_labels(labels: &HashMap<String, String>) -> Option<Self> {
        if labels.get(APP)? != "acquire" {
            return None;
        }
        Some(Self {
            instance: InstanceId::parse(labels.get(INSTANCE)?).ok()?,
            run: RunId::try_from(labels.get(RUN)?.clone()).ok()?,
            lease_until: labels.get(LEASE_UNTIL)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            instance: InstanceId::parse("5f0c").unwrap(),
            run: RunId::try_from("20261130-090000-a1b2c3".to_owned()).unwrap(),
            lease_until: "2026-11-30T11:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn labels_come_back_as_the_owner_that_they_were_made_of() {
        assert_eq!(Owner::from_labels(&owner().labels()), Some(owner()));
        assert_eq!(Owner::from_labels(&owner().container_labels("abc")), Some(owner()));
    }

    #[test]
    fn an_object_with_a_label_missing_or_malformed_is_not_ours() {
        for (key, value) in [(APP, "other"), (INSTANCE, "No Name"), (RUN, "../x"), (LEASE_UNTIL, "tomorrow")]
        {
            let mut labels = owner().labels();
            labels.insert(key.to_owned(), value.to_owned());
            assert_eq!(Owner::from_labels(&labels), None, "{key}={value}");
            labels.remove(key);
            assert_eq!(Owner::from_labels(&labels), None, "no {key}");
        }
    }

    #[test]
    fn instance_ids_are_safe_in_labels_and_names() {
        for bad in ["", "A", "a b", "a=b", "a/b", &"a".repeat(65)] {
            assert!(InstanceId::parse(bad).is_err(), "{bad:?} was taken");
        }
    }
}
