"""A service with one worker, and what one does on it when the ground under runs is the question."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jackline import Client, Run
from jackline.models import PolicyOptions
from jackline.workspaces.models import Workspace
from tests.client.conftest import end_commands
from tests.client.serving import Service, WorkerProcess, text_of
from tests.waiting import BOUND_S, until

WITHIN_S = BOUND_S
STAND = 'echo "$JACKLINE_WORKSPACE_ID $PWD"; echo work > file; exec sleep 600'


class Stage:
    """A service with one worker, and what one does on it."""

    def __init__(self, service: Service, client: Client, worker: WorkerProcess) -> None:
        self.service = service
        self.client = client
        self.worker = worker

    def submit(self, script: str = STAND, **policy: Any) -> str:
        """A run that executes a script."""
        named: PolicyOptions = {"retry_base_s": 0.1, **policy}  # type: ignore[typeddict-item]
        return self.client.submit({"command": ["sh", "-c", script]}, queue=self.worker.worker_id, policy=named).run_id

    def standing(self, run_id: str, attempt: int = 1) -> Workspace:
        """The workspace on which the command of that attempt has said that it stands."""

        def look() -> Workspace | None:
            said = text_of(self.client, run_id).splitlines()
            return self.client.workspaces.show(said[attempt - 1].split()[0]) if len(said) >= attempt else None

        return until(look, what=f"attempt {attempt} of {run_id} stands somewhere", within_s=WITHIN_S)

    def until_run(self, run_id: str, state: str) -> Run:
        """The run once it is in that state."""

        def look() -> Run | None:
            run = self.client.run(run_id)
            return run if run.state == state else None

        return until(look, what=f"{run_id} is {state}", within_s=WITHIN_S)

    def until_workspace(self, workspace_id: str, question: Callable[[Workspace], bool], what: str) -> Workspace:
        """The workspace once the question is answered with yes."""

        def look() -> Workspace | None:
            workspace = self.client.workspaces.show(workspace_id)
            return workspace if question(workspace) else None

        return until(look, what=what, within_s=WITHIN_S)

    def topics(self, run_id: str) -> list[str]:
        """The topics of the run's facts, in order."""
        return [fact.topic for fact in self.client.facts(run_id)]

    def cancel(self, run_id: str) -> None:
        """End a run that nobody needs any more, so that its slot is free."""
        self.client.cancel(run_id)
        self.until_run(run_id, "cancelled")


@contextmanager
def own_stage(script: Path, place: Path, *words: str, settings: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """A stage for one test, to be broken."""
    service = Service(script, place, settings)
    worker = WorkerProcess(service, "own", "--queue", "own", "--grace", "1", *words)
    try:
        service.start()
        worker.start()
        with service.client() as client:
            yield Stage(service, client, worker)
    finally:
        worker.close()
        service.close()
        end_commands(service)


def path_of(workspace: Workspace) -> Path:
    return Path(workspace.details["path"])


def no_process_in(path: Path) -> bool:
    """Whether no process works in that directory, or in what was that directory."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if os.readlink(process / "cwd").startswith(str(path)):
                    return False
            except OSError:
                continue
    return True
