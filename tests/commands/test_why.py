"""Why a run is as it is: one case for every state and reason that there can be, asked of a desk that lived it.

The table must be complete. Which reasons there are is read off the code: the words that settlements, waits and queues
are made with, the ends of attempts, and the codes of what stands in the way of a queued run. Whoever adds one adds a
case here, or the tests at the end fail and name it.
"""

import ast
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import domain
from commands import claims, ending, explaining, steering, workers
from domain.handing import Park
from domain.run_facts import EndOutcome, ParkKind, Terminal
from projections.outlook import BlockedCode
from tests.commands.absent import GRACE_S, connected, dropped
from tests.commands.test_claiming_by_queue import limited
from tests.commands.test_poison import poisoned
from tests.commands.test_reservations import reserved
from tests.commands.test_timeouts import timeout_id
from tests.commands.world import ADMIN, World, closing, leader, plain, text

DOMAIN = Path(domain.__file__).parent
ADA = leader("ada")
NO_QUEUE = frozenset({"parked", "revoked"})
"""Ends of an attempt that never make a run queued: it waits, or it is settled."""


class Told(NamedTuple):
    """What 'why' must say of a run: its state and reason, the last facts that led there, and what comes next."""

    state: str
    reason: str | None
    last: tuple[str, ...]
    next: str


async def queued(world: World) -> str:
    return await world.submit()


async def expired(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=10)
    await world.later(10)
    return run_id


async def detached(world: World) -> str:
    run_id, _ = await world.held("w1")
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(1)
    return run_id


async def sliced(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=10, hold=5)
    await world.later(5)
    await world.later(10)
    return run_id


async def handed_back(world: World) -> str:
    run_id, fence = await world.held("w1")
    await ending.hand_back(world.desk, ADMIN, run_id, fence)
    return run_id


async def stalled(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=900, quiet_after_s=30, on_quiet="fail_attempt")
    await world.later(30)
    return run_id


async def retried(world: World) -> str:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, "failed", error="no luck")
    return run_id


async def waiting(world: World, kind: Any = "waiting_input", *, keep: bool = False, **wish: Any) -> str:
    run_id, fence = await world.held("w1", **wish)
    if kind == "paused":
        await steering.pause(world.desk, ADMIN, run_id)
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind=kind, keep_lease=keep))
    return run_id


async def answered(world: World) -> str:
    run_id = await waiting(world)
    await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    return run_id


async def paused(world: World) -> str:
    run_id = await world.submit()
    await steering.pause(world.desk, ADMIN, run_id)
    return run_id


async def resumed(world: World) -> str:
    run_id = await paused(world)
    await steering.resume(world.desk, ADMIN, run_id)
    return run_id


async def deserted(world: World, **wish: Any) -> str:
    run_id, _ = await world.held("w1", ttl=900, leader_id="ada", **wish)
    await dropped(world)
    await world.later(GRACE_S)
    return run_id


async def held(world: World) -> str:
    return (await world.held("w1"))[0]


async def set_aside(world: World) -> str:
    await world.worker("w1")
    return (await reserved(world))[0]


async def judged(world: World, verdict: Any = None) -> str:
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    await world.close(run_id, fence, result=1)
    if verdict is not None:
        await steering.verdict(world.desk, ADA, run_id, verdict, text(None))
    return run_id


async def closed(world: World, outcome: Any, **close: Any) -> str:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, outcome, **close)
    return run_id


async def cancelled(world: World) -> str:
    run_id, _ = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.later(10)
    return run_id


async def exhausted(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=10, attempts=1)
    await world.later(10)
    return run_id


async def given_up(world: World) -> str:
    async with connected(world):
        run_id, _ = await world.held("w1", ttl=900, leader_id="ada", total_after_s=100)
        await world.later(100)
        await steering.acknowledge_timeout(world.desk, ADMIN, run_id, timeout_id(world, run_id), "abort")
    return run_id


GRANTED = ("lease.fence_bumped", "run.attempt_started")
CASES: dict[str, tuple[Callable[[World], Awaitable[str]], Told]] = {
    "submitted": (queued, Told("queued", "submitted", ("run.submitted",), "because no worker is registered")),
    "expired": (expired, Told("queued", "expired", ("run.worker_timeout", "run.attempt_ended"), "as attempt 2")),
    "detached": (detached, Told("queued", "detached", ("run.worker_timeout", "run.attempt_ended"), "as attempt 2")),
    "slice over": (sliced, Told("queued", "slice_ended", ("lease.expired", "run.attempt_ended"), "(in 1 s)")),
    "handed back": (handed_back, Told("queued", "handed_back", ("run.attempt_ended",), "(in 1 s)")),
    "stalled": (stalled, Told("queued", "stalled", ("run.worker_timeout", "run.attempt_ended"), "(in 10 s)")),
    "failed, to be retried": (retried, Told("queued", "retry", ("run.closed",), "(in 10 s)")),
    "answered": (answered, Told("queued", "answered", ("run.input_provided",), "as attempt 2")),
    "resumed": (resumed, Told("queued", "resumed", ("run.resumed",), "because no worker is registered")),
    "reserved": (set_aside, Told("reserved", "submitted", ("lease.reserved",), "binds its reservation")),
    "running": (held, Told("running", None, GRANTED, "worker 'w1' under fence 1 goes on; unless it renews")),
    "waiting for input": (
        waiting, Told("waiting_input", "asked_by_worker", ("run.parked",), "answers its question"),
    ),
    "waiting for a peer": (
        lambda world: waiting(world, "waiting_peer", keep=True),
        Told("waiting_peer", "asked_by_worker", ("run.parked",), "worker 'w1' under fence 1 keeps its lease"),
    ),
    "waiting to be taken over": (
        lambda world: waiting(world, "waiting_takeover"),
        Told("waiting_takeover", "asked_by_worker", ("run.parked",), "until an operator resumes it"),
    ),
    "paused by its worker": (
        lambda world: waiting(world, "paused"),
        Told("paused", "asked_by_worker", ("run.parked",), "it is paused until an operator resumes it"),
    ),
    "paused by its leader": (
        paused, Told("paused", "asked_by_leader", ("run.pause_requested", "run.parked"), "it is paused until"),
    ),
    "paused because its leader is gone": (
        lambda world: deserted(world, on_leader_gone="park"),
        Told("paused", "leader_gone", ("run.attempt_ended", "run.parked"), "its leader 'ada' or an operator resumes"),
    ),
    "waiting for the verdict": (
        judged, Told("waiting_verdict", None, ("run.closed",), "gives the verdict on the worker's outcome 'succeeded'"),
    ),
    "succeeded": (
        lambda world: closed(world, "succeeded"), Told("succeeded", "closed", ("run.closed",), "never changes"),
    ),
    "failed": (
        lambda world: closed(world, "failed", error="x", retryable=False),
        Told("failed", "closed", ("run.closed",), "retry makes a new run like it"),
    ),
    "judged well": (
        lambda world: judged(world, "succeeded"),
        Told("succeeded", "verdict", ("run.closed", "run.verdict_rendered"), "never changes"),
    ),
    "judged badly": (
        lambda world: judged(world, "failed"),
        Told("failed", "verdict", ("run.closed", "run.verdict_rendered"), "never changes"),
    ),
    "cancelled": (
        cancelled,
        Told("cancelled", "cancelled", ("run.cancel_requested", "run.attempt_ended", "run.settled"), "never changes"),
    ),
    "cancelled because its leader is gone": (
        deserted,
        Told("cancelled", "leader_gone", ("presence.leader_gone", "run.worker_timeout", "run.attempt_ended",
                                          "run.settled"), "nothing: the run is cancelled (leader_gone)"),
    ),
    "aborted": (
        exhausted,
        Told("aborted", "attempts_exhausted", ("run.worker_timeout", "run.attempt_ended", "run.settled"), "never"),
    ),
    "aborted by its leader": (
        given_up,
        Told("aborted", "timeout_aborted", ("run.worker_timeout", "run.timeout_acknowledged", "run.attempt_ended",
                                            "run.settled"), "never changes"),
    ),
    "lost": (
        lambda world: closed(world, "failed", error={"code": "exit_unknown"}, retryable=False),
        Told("lost", "exit_unknown", ("run.closed", "run.settled"), "nothing: the run is lost (exit_unknown)"),
    ),
}  # fmt: skip


def explained(world: World, run_id: str) -> Any:
    """The explanation as it travels."""
    return plain(explaining.explain(world.desk, ADMIN, run_id))


def topics(why: Any) -> list[str]:
    """What the facts that it follows from are called, in order."""
    return [fact["topic"].removesuffix(".v1") for fact in why["because"]]


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


# What stands in the way


async def nobody_there(world: World) -> str:
    return await world.submit()


async def not_due(world: World) -> str:
    return await world.submit(run_after=world.clock().after(60).wall)


async def queue_full(world: World) -> str:
    await world.held("w1")
    await limited(world, most=1)
    return await world.submit()


async def key_full(world: World) -> str:
    await world.held("w1", concurrency_key="k")
    return await world.submit(concurrency_key="k")


async def tenant_full(world: World) -> str:
    await world.held("w1")
    world.desk.live.limits.tenant_max = 1
    return await world.submit()


async def near_misses(world: World) -> str:
    await world.worker("far")
    await world.worker("near", gpu="t4", zone="x")
    await world.worker("nearer", gpu="a100", zone="y")
    return await world.submit(labels={"gpu": "a100", "zone": "x"})


async def draining(world: World) -> str:
    await world.worker("w2")
    await workers.drain_worker(world.desk, ADMIN, "w2")
    await poisoned(world, "w1")
    return await world.submit()


async def no_slot(world: World) -> str:
    await world.held("w1")
    await world.worker("w1", slots=1)
    return await world.submit()


async def behind(world: World) -> str:
    await world.worker("w1")
    await world.submit(priority=1)
    await world.submit(priority=9, run_after=world.clock().after(60).wall)  # not due, so not before it
    return await world.submit()


async def unasked(world: World) -> str:
    await world.worker("w1")
    return await world.submit()


IN_THE_WAY: dict[str, tuple[Callable[[World], Awaitable[str]], list[str], dict[str, Any]]] = {
    "reserved": (set_aside, ["reserved"], {"worker": "w1"}),
    "not_due": (not_due, ["not_due"], {"reason": "submitted"}),
    "queue_full": (queue_full, ["queue_full", "nobody_asks"], {"queue": "default", "limit": 1}),
    "key_full": (key_full, ["key_full", "nobody_asks"], {"concurrency_key": "k", "limit": 1}),
    "tenant_full": (tenant_full, ["tenant_full", "nobody_asks"], {"limit": 1}),
    "no_worker": (nobody_there, ["no_worker", "nobody_asks"], {}),
    "labels_missing": (near_misses, ["labels_missing", "nobody_asks"], {"wanted": {"gpu": "a100", "zone": "x"}}),
    "workers_unwilling": (draining, ["workers_unwilling", "nobody_asks"], {"count": 2}),
    "slots_used": (no_slot, ["slots_used", "nobody_asks"], {"count": 1}),
    "behind": (behind, ["behind", "nobody_asks"], {"ahead": 1}),
    "nobody_asks": (unasked, ["nobody_asks"], {"queue": "default"}),
}


@pytest.mark.parametrize("code", IN_THE_WAY)
@pytest.mark.origin("H17")
async def test_everything_in_the_way_of_a_queued_run_is_named_with_its_values(world: World, code: str) -> None:
    live, codes, details = IN_THE_WAY[code]
    why = explained(world, await live(world))
    (block,) = [block for block in why["waiting_for"] if block["code"] == code]

    assert codes == [block["code"] for block in why["waiting_for"]]
    assert details == {name: block["details"].get(name) for name in details}
    assert block["because"]
    assert block["until"]


async def test_whoever_has_what_is_used_up_is_named(world: World) -> None:
    run_id, _ = await world.held("w1", concurrency_key="k")
    (block, _) = explained(world, await world.submit(concurrency_key="k"))["waiting_for"]

    assert [{"run_id": run_id, "worker": "w1"}] == block["details"]["held_by"]
    assert f"run {run_id!r} has one, with worker 'w1'" in block["because"]


async def test_the_worker_that_lacks_least_is_named_first_with_what_it_has_instead(world: World) -> None:
    (block, _) = explained(world, await near_misses(world))["waiting_for"]

    assert [
        {"worker": "near", "missing": {"gpu": "a100"}, "has": {"gpu": "t4"}},
        {"worker": "nearer", "missing": {"zone": "x"}, "has": {"zone": "y"}},
        {"worker": "far", "missing": {"gpu": "a100", "zone": "x"}, "has": {"gpu": None, "zone": None}},
    ] == block["details"]["near"]


async def test_a_run_that_a_waiting_claim_is_about_to_get_waits_for_nothing(world: World) -> None:
    await world.worker("w1", gpu="a100")
    asking = world.start(claims.claim(world.desk, ADMIN, claims.Ask(worker_id="w1", queues=("other",), wait_s=60)))
    await world.settle()
    elsewhere = explained(world, await world.submit())

    assert ["nobody_asks"] == [block["code"] for block in elsewhere["waiting_for"]]
    assert world.desk.live.bells.asked(("default", "other"), (("gpu", "a100"),))
    assert not world.desk.live.bells.asked(("default", "other"), (("gpu", "t4"),))
    asking.cancel()


async def test_the_place_in_the_queue_counts_what_is_due_and_comes_before(world: World) -> None:
    runs = [await world.submit(priority=priority) for priority in (0, 5, 0, 9)]
    await world.submit(priority=9, run_after=world.clock().after(60).wall)
    places = [explained(world, run_id)["queue"] for run_id in runs]

    assert [2, 1, 3, 0] == [place["ahead"] for place in places]
    assert {("default", 5)} == {(place["name"], place["depth"]) for place in places}
    assert explained(world, await held(world))["queue"] is None


async def test_a_gone_leader_is_explained_from_the_drop_of_its_last_connection(world: World) -> None:
    found = topics(explained(world, await deserted(world)))

    assert ["presence.leader_vanished", "presence.leader_gone"] == [
        topic for topic in found if topic.startswith("presence.")
    ]


# Refused writes


@pytest.mark.origin("C4")
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
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
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


def test_everything_that_can_be_in_the_way_has_a_case() -> None:
    assert set(get_args(BlockedCode)) == set(IN_THE_WAY)
