"""Fences and repeats: what its holder said is not repeated by its holder's successor, in whichever place the fence is.

A command is the same when it says the same, and the fence is part of what it says, as a header or in the body. So an
effect that one attempt began is never *claimed* by the next, though both name it by the same idempotency key.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from api.bodies import canonical_digest
from journal.reached import JOURNAL_NAME
from tests.api.service import Service

FENCED: dict[str, dict[str, Any]] = {
    "effects/charge": {"payload": {"amount": 42}},
    "park": {"kind": "waiting_input", "question": "?"},
    "hand-back": {},
    "close": {"outcome": "failed", "error": "x"},
    "workspaces": {"provider": "external"},
    "turns": {},
}
"""Commands that are given under a fence, with a body that does not carry it."""


def path_of(run_id: str, verb: str) -> str:
    """Where the command goes."""
    return "/v1/workspaces" if verb == "workspaces" else f"/v1/runs/{run_id}/{verb}"


def body_of(run_id: str, verb: str, **more: Any) -> dict[str, Any]:
    """What the command says."""
    return {**FENCED[verb], **({"run_id": run_id} if verb == "workspaces" else {}), **more}


def head(fence: int, key: str = "once") -> dict[str, str]:
    """The command's key, and the fence beside its body."""
    return {"Idempotency-Key": key, "Jackline-Fence": str(fence)}


async def passed_on(service: Service, run_id: str) -> int:
    """The fence of whoever has the run after the one who had it first."""
    await service.ask("POST", f"/v1/runs/{run_id}/hand-back", {"fence": 1})
    return int((await service.ok("POST", f"/v1/runs/{run_id}/claim", {"worker_id": "w1"}))["fence"])


@pytest.mark.parametrize("verb", FENCED)
async def test_a_repeat_is_answered_as_before_under_its_fence_and_refused_under_another(
    service: Service, verb: str
) -> None:
    run_id = await service.held()
    path, body = path_of(run_id, verb), body_of(run_id, verb)
    first = await service.ok("POST", path, body, headers=head(1))
    fence = await passed_on(service, run_id)
    position = service.node.desk.journal.position

    assert first == await service.ok("POST", path, body, headers=head(1))
    for other in (fence, 7):
        refusal = await service.refused("POST", path, body, headers=head(other))
        assert (422, "idempotency_mismatch") == (refusal["status"], refusal["code"])
    assert position == service.node.desk.journal.position


async def test_a_successor_that_names_an_effect_by_its_predecessors_key_is_not_told_to_go_on(service: Service) -> None:
    run_id = await service.held()
    path, body = path_of(run_id, "effects/charge"), body_of(run_id, "effects/charge")
    assert "claimed" == (await service.ok("POST", path, body, headers=head(1)))["answer"]
    fence = await passed_on(service, run_id)

    assert "idempotency_mismatch" == (await service.refused("POST", path, body, headers=head(fence)))["code"]
    told = await service.ok("POST", path, body, headers=head(fence, "another"))
    assert "ambiguous" == told["answer"]


@pytest.mark.parametrize("first", ["header", "body"])
async def test_a_fence_says_the_same_as_a_header_and_in_the_body(service: Service, first: str) -> None:
    run_id = await service.held()
    path, body = path_of(run_id, "effects/charge"), body_of(run_id, "effects/charge")
    beside = (body, head(1))
    inside = ({**body, "fence": 1}, {"Idempotency-Key": "once"})
    both = ({**body, "fence": 1}, head(1))
    ways = [beside, inside, both] if first == "header" else [inside, both, beside]
    answers = [await service.ask("POST", path, said, headers=headers) for said, headers in ways]

    assert [200, 200, 200] == [answer.status_code for answer in answers]
    assert 1 == len({answer.headers["jackline-position"] for answer in answers})


async def test_a_fence_beside_a_command_that_takes_none_is_no_part_of_it(service: Service) -> None:
    key = {"Idempotency-Key": "once"}
    first = await service.ok("POST", "/v1/runs", {}, headers={**key, "Jackline-Fence": "1"})

    assert first == await service.ok("POST", "/v1/runs", {}, headers={**key, "Jackline-Fence": "x"})


@pytest.mark.parametrize("verb", FENCED)
async def test_what_an_earlier_version_remembered_is_answered_to_the_very_same_request_alone(
    service: Service, data_dir: Path, verb: str
) -> None:
    run_id = await service.held()
    path, body = path_of(run_id, verb), body_of(run_id, verb)
    first = await service.ok("POST", path, body, headers=head(1))
    with sqlite3.connect(data_dir / JOURNAL_NAME) as file:  # it compared the body alone
        file.execute("UPDATE commands SET request_digest = ?", (canonical_digest(body),))
    file.close()
    fence = await passed_on(service, run_id)

    assert first == await service.ok("POST", path, body, headers=head(1))
    for other in (fence, 7):
        assert "idempotency_mismatch" == (await service.refused("POST", path, body, headers=head(other)))["code"]
