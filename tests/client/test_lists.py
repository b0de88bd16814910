"""The SDK's lists and verbs over the stored read models, against a real service."""

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jackline import Client, Invalid
from jackline._sync import lists
from tests.client.serving import Service, bare_environment
from tests.client.test_sdk import held

pytestmark = pytest.mark.system
SAY_S = 60


def test_a_timeline_tells_states_with_how_long_they_lasted(client: Client, queue: str) -> None:
    lease = held(client, queue)
    client.close(lease, "succeeded")

    told = client.timeline(lease.run_id)

    assert ["queued", "running", "succeeded"] == [one["state"] for one in told]
    assert [True, True, False] == [one["lasted_s"] is not None for one in told]


def test_usage_of_a_queue_is_counted_by_day(client: Client, queue: str) -> None:
    client.close(held(client, queue), "failed", error="boom", retryable=False)

    used = client.usage(queue=queue, day_from=date(2000, 1, 1))

    assert [(1, 1, 1)] == [(one["submitted"], one["closed_failed"], one["settled_failed"]) for one in used]
    assert [] == client.usage(queue=queue, day_to=date(2000, 1, 1))
    with pytest.raises(Invalid, match="day_from"):
        client.usage(day_from=date(2030, 1, 2), day_to=date(2030, 1, 1))


def test_every_item_of_all_pages_is_given(client: Client, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE", 2)
    lease = held(client, queue)
    for key in ("a", "b", "c", "d", "e"):
        client.claim_effect(lease, key, None)
    for name in ("p1", "p2", "p3"):
        client.register_worker(f"{queue}-{name}")
        client.submit(None, queue=f"{queue}-{name}")

    keys = [one["key"] for one in client.every_effect(queue=queue, state="intended")]

    assert ["a", "b", "c", "d", "e"] == keys
    assert {f"{queue}-{name}" for name in ("p1", "p2", "p3")} <= {one.worker_id for one in client.workers()}
    assert {f"{queue}-{name}" for name in ("p1", "p2", "p3")} <= {one["queue"] for one in client.queues()}


def test_the_read_models_are_shown(client: Client) -> None:
    shown = client.projections(digest=True)

    assert {"runs", "timeline", "usage"} <= {one["name"] for one in shown}
    assert all(len(one["digest"]) == 64 for one in shown)


@pytest.mark.parametrize("json_too", [False, True])
def test_the_verbs_tell_people_and_programs(
    client: Client, shared: Service, jackline_script: Path, queue: str, json_too: bool
) -> None:
    lease = held(client, queue)
    client.claim_effect(lease, "mail", None)
    client.close(lease, "succeeded")

    def say(*words: str) -> Any:
        words = (*words, "--data-dir", str(shared.data_dir), *(["--json"] if json_too else []))
        done = subprocess.run(
            [str(jackline_script), *words],
            capture_output=True, text=True, timeout=SAY_S, env=bare_environment(), check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout) if json_too else done.stdout

    told, used, effects = say("timeline", lease.run_id), say("usage", "-q", queue), say("effects", "-q", queue)

    if json_too:
        assert "succeeded" == told[-1]["state"]
        assert [queue] == [one["queue"] for one in used]
        assert ["ambiguous"] == [one["state"] for one in effects]
    else:
        assert "run.attempt_started" in told
        assert queue in used
        assert "ambiguous" in effects


def test_a_day_that_is_none_is_a_wrong_use(jackline_script: Path) -> None:
    done = subprocess.run(
        [str(jackline_script), "usage", "--from", "yesterday"],
        capture_output=True, text=True, timeout=SAY_S, env=bare_environment(), check=False,
    )  # fmt: skip

    assert 2 == done.returncode
    assert "--from 'yesterday' is not a day" in done.stderr
