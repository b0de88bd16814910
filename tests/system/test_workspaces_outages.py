"""A run's directory while its worker or the service is away, or somebody else goes on with the run."""

import shutil
from pathlib import Path

import pytest

from tests.client.serving import WorkerProcess, text_of
from tests.system.ground_stage import WITHIN_S, Stage, own_stage, path_of
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("C1", "C5")]

# Leaves a file, asks, and reads it once it is answered.
ASKS_ONCE = """
echo "$JACKLINE_WORKSPACE_ID $PWD"
[ "$(cat "$JACKLINE_ANSWER")" = null ] || { cat file; echo "$JACKLINE_WORKSPACE_ID"; exit; }
echo work > file
jackline park --question '"go on?"'
"""


def restarted(stage: Stage, idle_s: str) -> None:
    """The service started again, with that idle time."""
    stage.service.kill()
    stage.service.settings["JACKLINE_IDLE_REAP_S"] = idle_s
    stage.service.start()


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
def test_while_its_worker_is_away_no_clock_takes_the_directory_of_a_run_that_waits_and_that_of_an_ended_run_goes(
    jackline_script: Path, tmp_path: Path
) -> None:
    with own_stage(jackline_script, tmp_path) as stage:
        waiting = stage.submit(ASKS_ONCE)
        kept = stage.standing(waiting)
        stage.until_run(waiting, "waiting_input")
        ended = stage.submit('echo "$JACKLINE_WORKSPACE_ID"')
        reaped = stage.standing(ended)
        stage.until_run(ended, "succeeded")
        stage.worker.kill()
        restarted(stage, "0.5")
        stage.until_workspace(reaped.workspace_id, lambda one: one.teardown, "the workspace is reaped")
        assert path_of(reaped).exists()

        restarted(stage, "1800")
        stage.worker.start()
        stage.until_workspace(reaped.workspace_id, lambda one: one.destroyed_at is not None, "it is destroyed")
        assert not path_of(reaped).exists()
        stage.client.answer(waiting, "yes")
        stage.until_run(waiting, "succeeded")
        assert ["work", kept.workspace_id] == text_of(stage.client, waiting).splitlines()[-2:]


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
        # The worker forgets an attempt once it has told how it ended: the run is settled a moment earlier.
        until(lambda: not any((stage.worker.home / "attempts").iterdir()), what="every attempt is forgotten")


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
            released = [one.data for one in stage.client.facts(run_id) if one.topic == "workspace.released.v1"]
            assert [("other", "left_by_its_worker")] == [(one["by"], one["cause"]) for one in released]
        finally:
            other.close()
