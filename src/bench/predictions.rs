//! The patches of an arm in the form that SWE-bench's own tools take.

use serde::Serialize;

use super::{arms::Arm, folder::BenchFolder, instances::Instance};
use crate::{
    method::ports::StoreError,
    store::{RunSummary, write_atomically},
};

#[derive(Serialize)]
struct Prediction<'a> {
    instance_id: &'a str,
    model_name_or_path: String,
    /// Empty where there is no patch. A file that is no UTF-8 cannot be held exactly by this form.
    model_patch: String,
}

/// Writes one line for each finished run. Unfinished patches are not predicted.
pub fn write(folder: &BenchFolder, arm: Arm, instances: &[Instance]) -> Result<(), StoreError> {
    let mut lines = Vec::new();
    for Instance { id, .. } in instances {
        let Some(summary) = folder.standing(arm, id).finished() else { continue };
        let patch = folder.patch(arm, id)?.unwrap_or_default();
        let prediction = Prediction {
            instance_id: id.as_str(),
            model_name_or_path: model_name(arm, &summary),
            model_patch: String::from_utf8_lossy(&patch).into_owned(),
        };
        serde_json::to_writer(&mut lines, &prediction).expect("texts can be written as JSON");
        lines.push(b'\n');
    }
    write_atomically(&folder.predictions(arm), &lines)
}

/// Graders make folders of it, so that it holds nothing but what a name of a file may.
fn model_name(arm: Arm, summary: &RunSummary) -> String {
    let model = summary.models.get("resolver").map_or("unknown", String::as_str);
    let fine = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    format!("acquire-{}-{arm}-{}", summary.version, model.chars().map(fine).collect::<String>())
}
