"""Opens exported files with the packages that they are made for.

open-exports.py trajectories FILE…            mini-swe-agent's inspector shows every page of each file
open-exports.py predictions FILE DATASET      swebench's evaluation takes the file for that dataset (a local .jsonl)

Prints how many were opened; fails at the first that is not.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path


async def page_through(path: Path) -> int:
    from minisweagent.run.utilities.inspector import TrajectoryInspector
    from textual.widgets import Static

    data = json.loads(path.read_text())
    replies = sum(message["role"] == "assistant" for message in data["messages"])
    app = TrajectoryInspector([path])
    async with app.run_test() as pilot:
        # A page for what comes before the first reply, then one for each reply.
        assert app.n_steps == replies + 1, f"{path}: {app.n_steps} pages for {replies} replies"
        for page in range(app.n_steps):
            await pilot.pause()
            assert app.i_step == page, f"{path}: page {app.i_step} where {page} was expected"
            texts = [str(shown.render()) for shown in app.query(Static).results()]
            assert any(text.strip() for text in texts), f"{path}: page {page} is empty"
            assert not any("No trajectory loaded" in text for text in texts), f"{path}: not loaded"
            await pilot.press("right")
    return app.n_steps


def trajectories(files: list[str]) -> None:
    pages = sum(asyncio.run(page_through(Path(file))) for file in files)
    assert files and pages > len(files)
    print(len(files))


def predictions(file: str, dataset: str) -> None:
    from swebench.harness.run_evaluation import get_dataset_from_preds
    from swebench.harness.utils import get_predictions_from_file

    found = get_predictions_from_file(file, dataset, "test")
    by_id = {one["instance_id"]: one for one in found}
    assert len(by_id) == len(found), "an instance is predicted twice"
    for one in found:
        assert one["model_name_or_path"] and isinstance(one["model_patch"], str), one["instance_id"]
    with tempfile.TemporaryDirectory() as folder:
        import os

        os.chdir(folder)  # it looks for earlier reports where it stands
        to_evaluate = get_dataset_from_preds(dataset, "test", [], by_id, "check", False)
    wanted = {i for i, one in by_id.items() if one["model_patch"]}
    assert {one["instance_id"] for one in to_evaluate} == wanted, "not all patches would be evaluated"
    print(len(found))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    {"trajectories": lambda: trajectories(rest), "predictions": lambda: predictions(*rest)}[kind]()
