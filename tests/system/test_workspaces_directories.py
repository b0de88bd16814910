"""A run's directory under a real service and a real worker: deleted, replaced, kept, destroyed, found again."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.conftest import end_commands
from tests.client.serving import Service, WorkerProcess, text_of
from tests.system.ground_stage import WITHIN_S, Stage, no_process_in, path_of
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("C1", "C5")]

ASSERT_EVERY_S = 1.0


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


@pytest.mark.origin("C5")
def test_a_command_that_fails_because_its_directory_went_does_not_decide_over_the_loss(stage: Stage) -> None:
    run_id = stage.submit('rm -rf "$PWD"; exit 3', max_attempts=1)
    run = stage.client.wait(run_id, WITHIN_S)

    assert ("lost", "DirectoryDeleted") == (run.state, run.error["reason"])
    assert "run.closed.v1" not in stage.topics(run_id)


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


@pytest.mark.origin("C12", "C13", "C14", "C28")
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
