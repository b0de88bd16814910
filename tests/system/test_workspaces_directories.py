"""A run's directory under a real service and a real worker: deleted, replaced, kept, destroyed, found again."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jackline import Client, Run
from jackline.models import PolicyOptions
from jackline.workspaces.models import Workspace
from tests.client.conftest import end_commands
from tests.client.serving import Service, WorkerProcess, text_of
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("C1", "C5")]

WITHIN_S = 30.0
STAND = 'echo "$JACKLINE_WORKSPACE_ID $PWD"; echo work > file; exec sleep 600'
ASSERT_EVERY_S = 1.0


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


@pytest.fixture(scope="module")
def stage(jackline_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One stage for the tests that need no service of their own."""
    settings = {"JACKLINE_ASSERT_EVERY_S": f"{ASSERT_EVERY_S:g}", "JACKLINE_CANCEL_GRACE_S": "5"}
    service = Service(jackline_script, tmp_path_factory.mktemp("stage"), settings).start()
    worker = WorkerProcess(service, "hand", "--queue", "hand", "--slots", "8", "--grace", "1").start()
    with service.client() as client:
        yield Stage(service, client, worker)
    worker.close()
    service.close()
    end_commands(service)


def path_of(workspace: Workspace) -> Path:
    return Path(workspace.details["path"])


def test_a_command_stands_in_the_directory_that_was_placed_for_its_run(stage: Stage) -> None:
    run_id = stage.submit()
    workspace = stage.standing(run_id)

    assert ("running", "directory", run_id) == (workspace.phase, workspace.provider, workspace.run_id)
    assert f"{workspace.workspace_id} {path_of(workspace)}\n" == text_of(stage.client, run_id)
    topics = stage.topics(run_id)
    assert topics.index("workspace.placed.v1") < topics.index("workspace.attached.v1")
    stage.cancel(run_id)


def test_a_run_whose_directory_is_deleted_under_it_is_lost_with_the_reason(stage: Stage) -> None:
    run_id = stage.submit()
    workspace = stage.standing(run_id)
    shutil.rmtree(path_of(workspace))
    run = stage.until_run(run_id, "lost")

    assert "workspace_lost" == run.reason
    assert {
        "code": "workspace_lost",
        "workspace_id": workspace.workspace_id,
        "reason": "DirectoryDeleted",
        "message": f"{path_of(workspace)}: it was deleted",
        "exit_code": None,
    } == run.error
    assert 1 == stage.topics(run_id).count("workspace.lost.v1")
    until(lambda: no_process_in(path_of(workspace)), what="the command has been ended", within_s=WITHIN_S)


@pytest.mark.origin("C6")
def test_a_run_that_may_retry_gets_a_fresh_directory(stage: Stage) -> None:
    run_id = stage.submit(on_workspace_lost="retry_fresh")
    first = stage.standing(run_id)
    shutil.rmtree(path_of(first))
    second = stage.standing(run_id, attempt=2)

    assert first.workspace_id != second.workspace_id
    assert first.identity != second.identity
    assert ("running", 2) == ((run := stage.client.run(run_id)).state, run.attempt)
    assert ["lost", "running"] == [one.phase for one in run.workspaces]
    stage.cancel(run_id)


def test_a_run_that_is_to_wait_is_parked_when_its_directory_is_gone(stage: Stage) -> None:
    run_id = stage.submit(on_workspace_lost="park")
    shutil.rmtree(path_of(stage.standing(run_id)))

    assert "workspace_lost" == stage.until_run(run_id, "waiting_takeover").reason
    stage.cancel(run_id)


@pytest.mark.origin("C3", "C6", "R12")
def test_another_directory_in_its_place_is_a_loss_of_its_own_kind_and_is_left_alone(stage: Stage) -> None:
    run_id = stage.submit()
    path = path_of(stage.standing(run_id))
    path.rename(path.with_name("moved"))
    path.mkdir()
    (path / "precious").touch()

    assert "DirectoryReplaced" == stage.until_run(run_id, "lost").error["reason"]
    assert (path / "precious").exists()
    assert (path.with_name("moved") / "file").exists()


@pytest.mark.origin("C9")
def test_what_a_command_does_inside_its_directory_is_no_loss(stage: Stage) -> None:
    run_id = stage.submit("touch a b c; rm -rf ./* ./.[!.]*; git init -q . && git clean -fdxq; chmod 0 .; chmod 700 .")
    run = stage.client.wait(run_id, WITHIN_S)

    assert "succeeded" == run.state, run.error


def test_a_later_attempt_stands_on_the_same_directory(stage: Stage) -> None:
    run_id = stage.submit('echo "$JACKLINE_WORKSPACE_ID $PWD"; [ -e file ] && exit 0; touch file; exit 1')
    run = stage.client.wait(run_id, WITHIN_S)

    assert ("succeeded", 2) == (run.state, run.attempt)
    assert 1 == len(run.workspaces)
    assert 1 == len(set(text_of(stage.client, run_id).splitlines()))


@pytest.mark.origin("C14")
def test_a_run_that_waits_for_an_answer_finds_its_directory_again(stage: Stage) -> None:
    script = 'echo "$JACKLINE_WORKSPACE_ID $PWD"; [ -e file ] && exit 0; touch file; jackline park --question "go on?"'
    run_id = stage.submit(script)
    stage.until_run(run_id, "waiting_input")
    stage.client.answer(run_id, "yes")

    assert "succeeded" == stage.client.wait(run_id, WITHIN_S).state
    assert 1 == len(set(text_of(stage.client, run_id).splitlines()))


@pytest.mark.origin("C2")
def test_a_directory_that_is_deleted_while_its_run_waits_is_noticed(stage: Stage) -> None:
    run_id = stage.submit('echo "$JACKLINE_WORKSPACE_ID $PWD"; jackline park --question "go on?"')
    workspace = stage.standing(run_id)
    stage.until_run(run_id, "waiting_input")
    shutil.rmtree(path_of(workspace))

    assert "DirectoryDeleted" == stage.until_run(run_id, "lost").error["reason"]


@pytest.mark.origin("C19", "K16")
def test_cancelling_a_run_destroys_its_directory(stage: Stage) -> None:
    run_id = stage.submit()
    workspace = stage.standing(run_id)
    stage.client.cancel(run_id)
    destroyed = stage.until_workspace(
        workspace.workspace_id, lambda one: one.destroyed_at is not None, "the directory is destroyed"
    )

    assert "destroyed" == destroyed.phase
    assert not path_of(workspace).exists()
    assert "cancelled" == stage.client.run(run_id).state


@pytest.mark.origin("C19", "K16")
def test_cancelling_a_run_but_keeping_its_workspaces_leaves_the_directory(stage: Stage) -> None:
    run_id = stage.submit()
    workspace = stage.standing(run_id)
    stage.client.cancel(run_id, keep_workspaces=True)
    stage.until_run(run_id, "cancelled")
    until(lambda: no_process_in(path_of(workspace)), what="the command has been ended", within_s=WITHIN_S)

    assert "work\n" == (path_of(workspace) / "file").read_text()
    assert not stage.client.workspaces.show(workspace.workspace_id).teardown


@pytest.mark.origin("C19", "K16")
def test_the_directory_of_a_run_that_has_ended_stays_until_it_is_released(stage: Stage) -> None:
    run_id = stage.submit('echo "$JACKLINE_WORKSPACE_ID $PWD"; echo result > file')
    workspace = stage.standing(run_id)
    stage.client.wait(run_id, WITHIN_S)

    assert "result\n" == (path_of(workspace) / "file").read_text()

    stage.client.workspaces.release(workspace.workspace_id)
    stage.until_workspace(workspace.workspace_id, lambda one: one.destroyed_at is not None, "it is destroyed")
    assert not path_of(workspace).exists()


@pytest.mark.origin("C12", "C13", "C14")
def test_a_directory_is_asserted_while_its_run_is_open_and_not_after(stage: Stage) -> None:
    run_id = stage.submit()
    workspace = stage.standing(run_id)
    before = workspace.last_asserted_at
    stage.until_workspace(
        workspace.workspace_id,
        lambda one: one.last_asserted_at is not None and before is not None and one.last_asserted_at > before,
        "the workspace is asserted again",
    )
    stage.client.cancel(run_id, keep_workspaces=True)
    stage.until_run(run_id, "cancelled")
    said = until(
        lambda: [
            one
            for one in stage.worker.happened("workspace_no_longer_asserted")
            if one["workspace_id"] == workspace.workspace_id
        ],
        what="the worker has stopped asserting",
        within_s=WITHIN_S,
    )

    assert ["run_ended"] == [one["code"] for one in said]


def test_a_worker_whose_key_is_for_its_own_name_may_look_after_its_directories(
    jackline_script: Path, tmp_path: Path
) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        stage.worker.stop()
        key = stage.client.create_key("own", "worker", worker_ids=["own"]).key
        stage.worker.start({"JACKLINE_KEY": str(key)})
        run_id = stage.submit(on_workspace_lost="retry_fresh")
        first = stage.standing(run_id)
        shutil.rmtree(path_of(first))
        second = stage.standing(run_id, attempt=2)
        stage.client.cancel(run_id)
        stage.until_workspace(second.workspace_id, lambda one: one.destroyed_at is not None, "it is destroyed")

        assert "cancelled" == stage.client.run(run_id).state
        assert [] == stage.worker.happened("observation_refused")


@pytest.mark.origin("C12", "K16")
def test_a_directory_that_was_reaped_while_its_worker_was_away_is_destroyed_when_it_is_back(
    jackline_script: Path, tmp_path: Path
) -> None:
    with own_stage(jackline_script, tmp_path, settings={"JACKLINE_IDLE_REAP_S": "1"}) as stage:
        run_id = stage.submit('echo "$JACKLINE_WORKSPACE_ID $PWD"; jackline park --question "go on?"')
        workspace = stage.standing(run_id)
        stage.until_run(run_id, "waiting_input")
        stage.worker.kill()
        stage.until_workspace(workspace.workspace_id, lambda one: one.teardown, "the workspace is reaped")
        assert path_of(workspace).exists()

        stage.worker.start()
        stage.until_workspace(workspace.workspace_id, lambda one: one.destroyed_at is not None, "it is destroyed")
        assert not path_of(workspace).exists()
        assert "waiting_input" == stage.client.run(run_id).state


@pytest.mark.origin("C8", "R18")
def test_a_directory_that_cannot_be_made_fails_the_attempt_and_not_the_run_as_lost(
    jackline_script: Path, tmp_path: Path
) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        place = stage.worker.home / "workspaces"
        shutil.rmtree(place)
        place.write_text("in the way")
        run = stage.client.wait(stage.submit(max_attempts=1), WITHIN_S)
        place.unlink()
        again = stage.client.wait(stage.submit("true"), WITHIN_S)

        assert "aborted" == run.state
        assert "workspace.provision_faulted.v1" in stage.topics(run.run_id)
        assert "workspace.lost.v1" not in stage.topics(run.run_id)
        assert "succeeded" == again.state
        assert [] == list((stage.worker.home / "attempts").iterdir())


@pytest.mark.origin("C9", "R14", "K5")
def test_a_killed_worker_leaves_its_directory_unknown_and_goes_on_in_it(jackline_script: Path, tmp_path: Path) -> None:
    with own_stage(jackline_script, tmp_path, "--come-back", "30") as stage:
        run_id = stage.submit()
        workspace = stage.standing(run_id)
        stage.worker.kill()
        unknown = stage.until_workspace(
            workspace.workspace_id, lambda one: one.unknown_since is not None, "nobody sees the directory"
        )
        assert ("running", "holder_gone") == (unknown.phase, unknown.unknown_cause)

        stage.worker.start()
        again = stage.standing(run_id, attempt=2)
        stage.until_workspace(workspace.workspace_id, lambda one: one.unknown_since is None, "it is seen again")

        assert (workspace.workspace_id, workspace.identity) == (again.workspace_id, again.identity)
        assert "workspace.lost.v1" not in stage.topics(run_id)


@pytest.mark.origin("K5", "H14")
def test_a_directory_that_was_deleted_while_the_worker_was_away_is_lost_when_it_is_back(
    jackline_script: Path, tmp_path: Path
) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        run_id = stage.submit()
        workspace = stage.standing(run_id)
        stage.worker.kill()
        shutil.rmtree(path_of(workspace))
        stage.worker.start()

        assert "DirectoryDeleted" == stage.until_run(run_id, "lost").error["reason"]


@pytest.mark.origin("K5")
def test_after_a_restart_of_the_service_every_directory_is_seen_again(jackline_script: Path, tmp_path: Path) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        run_id = stage.submit()
        workspace = stage.standing(run_id)
        stage.service.kill()
        stage.service.start()
        stage.until_workspace(workspace.workspace_id, lambda one: one.unknown_since is None, "it is seen again")
        topics = stage.topics(run_id)

        assert "workspace.continuity_unknown.v1" in topics
        assert "workspace.continuity_restored.v1" in topics
        assert ("running", 1) == ((run := stage.client.run(run_id)).state, run.attempt)


@pytest.mark.origin("C11", "C29")
def test_a_loss_that_nobody_could_be_told_is_told_when_the_service_is_back(
    jackline_script: Path, tmp_path: Path
) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        run_id = stage.submit()
        workspace = stage.standing(run_id)
        stage.service.kill()
        shutil.rmtree(path_of(workspace))
        until(lambda: stage.worker.happened("workspace_gone"), what="the worker has seen it", within_s=WITHIN_S)
        stage.service.start()

        assert "DirectoryDeleted" == stage.until_run(run_id, "lost").error["reason"]


@pytest.mark.origin("C6")
def test_a_run_that_goes_on_elsewhere_has_its_first_directory_destroyed(jackline_script: Path, tmp_path: Path) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        run_id = stage.submit()
        first = stage.standing(run_id)
        stage.worker.kill()
        other = WorkerProcess(stage.service, "other", "--queue", stage.worker.worker_id, "--grace", "1").start()
        try:
            second = stage.standing(run_id, attempt=2)
            assert first.workspace_id != second.workspace_id
            assert path_of(first).exists()

            stage.worker.start()
            stage.until_workspace(first.workspace_id, lambda one: one.destroyed_at is not None, "it is destroyed")
            assert not path_of(first).exists()
            assert "running" == stage.client.run(run_id).state
        finally:
            other.close()


class own_stage:
    """A stage for one test, to be broken."""

    def __init__(self, script: Path, place: Path, *words: str, settings: Mapping[str, str] | None = None) -> None:
        self.service = Service(script, place, settings)
        self.worker = WorkerProcess(self.service, "own", "--queue", "own", "--grace", "1", *words)

    def __enter__(self) -> Stage:
        self.service.start()
        self.worker.start()
        self.client = self.service.client()
        return Stage(self.service, self.client, self.worker)

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.worker.close()
        self.service.close()
        end_commands(self.service)


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
