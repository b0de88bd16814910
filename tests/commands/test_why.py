"""Why a run is as it is: one case for every state and reason that there can be, asked of a desk that lived it.

The table (``lives``) must be complete. Which reasons there are is read off the code: the words that settlements, waits
and queues are made with, and the ends of attempts. Whoever adds one adds a case, or the tests at the end fail and name
it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import domain
from commands import ending
from domain.run_facts import EndOutcome, ParkKind, Terminal
from tests.commands.lives import CASES, deserted, explained, topics
from tests.commands.world import ADMIN, World, closing

DOMAIN = Path(domain.__file__).parent
NO_QUEUE = frozenset({"parked", "revoked"})
"""Ends of an attempt that never make a run queued: it waits, or it is settled."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.origin("H17")
async def test_every_state_and_reason_is_explained_by_facts_and_by_what_comes_next(world: World, name: str) -> None:
    live, told = CASES[name]
    run_id = await live(world)
    why, shown = explained(world, run_id), await world.show(run_id)
    found = topics(why)

    assert (told.state, told.reason) == (why["state"], shown["reason"])
    assert "run.submitted" in found
    assert list(told.last) == [topic for topic in found if topic in told.last][-len(told.last) :], found
    assert told.last[-1] == found[-1] or told.state in ("queued", "waiting_input", "waiting_takeover", "paused"), found
    assert told.next in why["next"], why["next"]
    assert shown["fence"] == why["fence"]
    assert all(clock["since"] and clock["due_at"] for clock in why["clocks"])
    assert ("queued" in told.state or told.state == "reserved") == bool(why["waiting_for"])


async def test_a_gone_leader_is_explained_from_the_drop_of_its_last_connection(world: World) -> None:
    found = topics(explained(world, await deserted(world)))

    assert ["presence.leader_vanished", "presence.leader_gone"] == [
        topic for topic in found if topic.startswith("presence.")
    ]


# Refused writes


async def test_writes_under_a_stale_fence_are_told_with_who_tried_how_often_and_when(world: World) -> None:
    run_id, stale = await world.held("w1", ttl=10)
    await world.later(10)
    await world.worker("w2")
    await world.claim_run(run_id, "w2")
    first = world.clock().wall
    for _ in range(3):
        world.go(1)
        await world.refused_or(world.partial(run_id, stale, {"late": True}))
    await world.refused_or(world.close(run_id, 7))
    why = explained(world, run_id)

    assert [("7", None, 1), (str(stale), "w1", 3)] == [
        (str(one["fence"]), one["worker"], one["count"]) for one in why["refused"]
    ]
    assert ("admin", "never_granted") == (why["refused"][0]["principal"], why["refused"][0]["reason"])
    assert why["refused"][1]["first_at"] < why["refused"][1]["last_at"]
    assert why["refused"][1]["first_at"].startswith(first.isoformat()[:16])
    assert "run.partial" not in topics(why)


async def test_a_refused_close_among_many_is_told_too(world: World) -> None:
    run_id, fence = await world.held("w1")
    await ending.close_many(world.desk, ADMIN, [closing(run_id, fence + 1)])

    assert [fence + 1] == [one["fence"] for one in explained(world, run_id)["refused"]]


# The table is complete


def called(name: str) -> Iterator[dict[str, str]]:
    """The keyword arguments of every call of this name in the domain, constants by their value."""
    for path in sorted(DOMAIN.glob("*.py")):
        tree = ast.parse(path.read_text())
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield {word.arg: _value(word.value, constants) for word in node.keywords if word.arg is not None}


def _value(node: ast.expr, constants: dict[str, Any]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name) and node.id in constants:
        return str(constants[node.id])
    return f"<{ast.unparse(node)}>"


def test_every_reason_that_a_run_can_be_queued_for_has_a_case() -> None:
    ends = {word for call in called("Ending") for word in get_args(EndOutcome) if f"'{word}'" in call["outcome"]}
    ends |= {call["outcome"] for call in called("Ending")} & set(get_args(EndOutcome))
    ends |= {call["outcome"] for call in called("Failed")} & set(get_args(EndOutcome))
    plain_words = {call["reason"] for call in called("Queued")} - {"<fact.outcome>", "<reason>"}
    continued = {"answered", "resumed"}

    assert plain_words | continued | (ends - NO_QUEUE) == {
        told.reason for _, told in CASES.values() if told.state == "queued"
    }


def test_every_reason_that_a_run_can_wait_for_has_a_case() -> None:
    reasons = {call["reason"] for call in called("RunParked")}
    waits = [told for _, told in CASES.values() if told.state in get_args(ParkKind)]

    assert reasons == {told.reason for told in waits}
    assert set(get_args(ParkKind)) == {told.state for told in waits}


def test_every_end_with_its_reason_has_a_case() -> None:
    by_facts = {(call["state"], call["reason"]) for call in called("Settlement")}
    by_facts.discard(("<settlement.state>", "<settlement.reason>"))  # one that is handed on with more citations
    by_hand = {(state, "closed") for state in ("succeeded", "failed")} | {
        (state, "verdict") for state in ("succeeded", "failed")
    }
    ends = {(told.state, told.reason) for _, told in CASES.values() if told.state in get_args(Terminal)}

    assert by_facts | by_hand == ends
    assert {"closed", "verdict"} == {call["reason"] for call in called("Settled")} - {"<fact.reason>"}
