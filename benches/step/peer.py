"""mini-swe-agent's side of `scripts/bench step`: its own agent, its own Docker environment, its own trajectory.

A step is what lies between the model's reply and the next request: run the command, word the observation,
save the trajectory, put the next request together. The agent, the environment and the wording of
observations are theirs, unchanged; only the model is replaced by one that always asks for `true`.

Speaks with the bench over its standard streams: it prints `[]` when it is ready; for each number N that it
reads it takes N steps and prints their seconds as a JSON list; it ends with its input.
"""

import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.docker import DockerEnvironment
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicToolcallModel


class PacedModel(DeterministicToolcallModel):
    """Replies when the bench says so, and takes the time in between."""

    def __init__(self):
        # No outputs: the agent serialises its model's settings with every step.
        super().__init__(outputs=[], cost_per_call=0.0)
        self.steps = []
        self.wanted = 0
        self.calls = 0
        self.replied = None

    def query(self, messages, **_):
        asked = time.perf_counter()
        if self.replied is not None:
            self.steps.append(asked - self.replied)
        if len(self.steps) == self.wanted:
            self.next_round()
        self.calls += 1
        call = f"call_{self.calls}"
        reply = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": {"name": "bash", "arguments": '{"command": "true"}'}}],
            "extra": {"actions": [{"command": "true", "tool_call_id": call}], "cost": 0.0, "timestamp": time.time()},
        }
        self.replied = time.perf_counter()
        return reply

    def next_round(self):
        print(json.dumps(self.steps), flush=True)
        self.steps = []
        line = sys.stdin.readline()
        if not line:
            end = {"exit_status": "Submitted", "submission": ""}
            raise Submitted({"role": "exit", "content": "", "extra": end})
        self.wanted = int(line)


def main():
    image, system, task = sys.argv[1:]
    # Spares it the writing of its log, which would go between our lines.
    logging.disable(logging.WARNING)
    environment = DockerEnvironment(image=image)
    try:
        with tempfile.TemporaryDirectory() as folder:
            DefaultAgent(
                PacedModel(),
                environment,
                system_template=system,
                instance_template=task,
                cost_limit=0.0,
                output_path=Path(folder) / "trajectory.json",
            ).run()
    finally:
        # Its own clean-up waits ten seconds for `sleep`, in the background.
        subprocess.run(["docker", "rm", "--force", environment.container_id], stdout=subprocess.DEVNULL, check=True)
        environment.container_id = None


if __name__ == "__main__":
    main()
