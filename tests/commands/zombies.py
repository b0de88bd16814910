"""The zombie matrix: every write that a fence guards, by a worker whose right to it has ended, and what it is told.

Worker ``w1`` was granted the run under fence 1, began the effect ``mail``, saved a partial, attached to a workspace and
delivered turn 1 to it, while turn 2 is admitted and not delivered. Then something happened
(a row), and w1, which may have been stopped, partitioned or slow, writes as if nothing had (a column). `MATRIX` says
what is right; the suite compares each cell with the real service, and the table in docs/testing.md is made from it.
"""

from collections.abc import Awaitable, Callable

from commands import effects, ending, holding, steering, turns, workers, workspaces
from commands.turns import Named
from domain.handing import Park
from domain.placing import Attach
from domain.refusal import Refusal
from domain.values import NULL, to_json
from domain.workspace_facts import WorkspacePlaced
from journal.commit import Done
from tests.commands.absent import dropped
from tests.commands.ground import saw, see
from tests.commands.world import ADMIN, World, worker_key

W1 = worker_key("w1")
"""Who writes: a principal that may be w1 and nobody else."""
TTL_S, HOLD_S = 60.0, 600.0
GROUND = workspaces.Wish(provider="external", scope=None, spec=NULL)

Situation = Callable[[World], Awaitable[str]]
Write = Callable[[World, str], Awaitable[object]]


async def _held(world: World, **wish: object) -> str:
    run_id, fence = await world.held("w1", ttl=TTL_S, **wish)
    assert 1 == fence
    await effects.claim_effect(world.desk, W1, run_id, 1, ("mail", NULL))
    await world.partial(run_id, 1, "half", W1)
    await workspaces.place(world.desk, W1, run_id, 1, GROUND)
    await workspaces.attach(world.desk, W1, ground_of(world, run_id), Attach(identity="body"))
    for _ in range(2):
        await turns.admit(world.desk, W1, run_id, 1, ground_of(world, run_id))
    await turns.deliver(world.desk, W1, Named(run_id=run_id, fence=1, turn=1), 0)
    return run_id


def ground_of(world: World, run_id: str) -> str:
    """The workspace that w1 placed."""
    return next(fact.workspace_id for fact in world.facts(run_id) if isinstance(fact, WorkspacePlaced))


async def nothing_recorded_yet(world: World) -> str:
    """The deadline has passed, and the expiry is not in the journal: the journal is asked, never the clock."""
    run_id = await _held(world)
    world.go(TTL_S + 1)
    return run_id


async def stopped_past_its_ttl(world: World) -> str:
    """The lease expired; nobody else has the run yet."""
    run_id = await _held(world)
    await world.later(TTL_S)
    return run_id


async def detached(world: World) -> str:
    """Its last stream broke, and the reconnect window has passed."""
    run_id = await _held(world)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(world.desk.timers.reconnect_s)
    return run_id


async def taken_over(world: World) -> str:
    """Another worker was granted the run under fence 2."""
    run_id = await stopped_past_its_ttl(world)
    await world.worker("w2")
    await world.claim_run(run_id, "w2")
    return run_id


async def reserved_by_another(world: World) -> str:
    """Another worker has reserved it: a grant, though nobody acts yet."""
    run_id = await stopped_past_its_ttl(world)
    await world.worker("w2")
    (granted,) = await world.claim("w2", reserve=True)
    assert run_id == granted["run_id"]
    return run_id


async def slice_ended(world: World) -> str:
    """The slice is over; one last ttl remains to save in."""
    run_id = await _held(world, hold=HOLD_S)
    await _kept_until(world, run_id, HOLD_S)
    return run_id


async def slice_unanswered(world: World) -> str:
    """The slice and its last ttl are over."""
    run_id = await slice_ended(world)
    await world.later(TTL_S)
    return run_id


async def _kept_until(world: World, run_id: str, seconds: float) -> None:
    for _ in range(int(seconds // (TTL_S / 2))):
        await world.later(TTL_S / 2)
        await world.beats("w1", run_id, 1)


async def parked(world: World) -> str:
    """It parked the run and gave the lease up."""
    run_id = await _held(world)
    await ending.park(world.desk, W1, run_id, 1, Park(kind="waiting_input", question=to_json("?")))
    return run_id


async def handed_back(world: World) -> str:
    """It handed the run back."""
    run_id = await _held(world)
    await ending.hand_back(world.desk, W1, run_id, 1)
    return run_id


async def cancel_asked(world: World) -> str:
    """The leader wants the run cancelled, and the grace to save and close runs."""
    run_id = await _held(world)
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    return run_id


async def cancelled(world: World) -> str:
    """The grace of the cancel is over: the run is settled."""
    run_id = await cancel_asked(world)
    await world.later(world.desk.timers.cancel_grace_s)
    return run_id


async def leader_gone(world: World) -> str:
    """The run was settled because its leader is gone."""
    run_id = await _held(world, leader_id="lena")
    await dropped(world, "lena")
    await _kept_until(world, run_id, world.desk.timers.leader_grace_s)
    return run_id


async def closed(world: World) -> str:
    """It closed the run itself, which succeeded."""
    run_id = await _held(world)
    await world.close(run_id, 1, result="whole", caller=W1)
    return run_id


async def verdict_pending(world: World) -> str:
    """It closed the run, and the leader has yet to judge."""
    run_id = await _held(world, judge="leader", leader_id="lena")
    await world.close(run_id, 1, result="whole", caller=W1)
    return run_id


async def aborted(world: World) -> str:
    """Its last attempt expired: the run was given up."""
    run_id = await _held(world, attempts=1)
    await world.later(TTL_S)
    return run_id


async def workspace_lost(world: World) -> str:
    """The body that it stood on is gone, and the run is lost with it."""
    run_id = await _held(world)
    await see(world, ground_of(world, run_id), saw("gone"))
    return run_id


async def tried_afresh(world: World) -> str:
    """The body that it stood on is gone, and the run waits for a fresh one."""
    run_id = await _held(world, on_workspace_lost="retry_fresh")
    await see(world, ground_of(world, run_id), saw("gone"))
    return run_id


async def paused_by_an_absent_leader(world: World) -> str:
    """The leader is gone, and its runs wait for it to come back."""
    run_id = await _held(world, leader_id="lena", on_leader_gone="park")
    await dropped(world, "lena")
    await _kept_until(world, run_id, world.desk.timers.leader_grace_s)
    return run_id


SITUATIONS: dict[str, Situation] = {
    each.__name__: each
    for each in (
        nothing_recorded_yet, stopped_past_its_ttl, detached, reserved_by_another, taken_over, slice_ended,
        slice_unanswered, parked, handed_back, cancel_asked, cancelled, leader_gone,
        paused_by_an_absent_leader, workspace_lost, tried_afresh, verdict_pending, closed, aborted,
    )
}  # fmt: skip

WRITES: dict[str, Write] = {
    "renew": lambda world, run: holding.heartbeat(world.desk, W1, "w1", [holding.Lessee(run, 1)]),
    "output": lambda world, run: world.output(run, 1, 7, "x", W1),
    "partial": lambda world, run: world.partial(run, 1, "more", W1),
    "progress": lambda world, run: holding.progress(world.desk, W1, run, 1, holding.Progress(message="m")),
    "claim effect": lambda world, run: effects.claim_effect(world.desk, W1, run, 1, ("pay", NULL)),
    "complete effect": lambda world, run: effects.finish_effect(world.desk, W1, run, 1, ("mail", "completed", NULL)),
    "fail effect": lambda world, run: effects.finish_effect(world.desk, W1, run, 1, ("mail", "failed", NULL)),
    "reconcile effect": lambda world, run: effects.reconcile_effect(world.desk, W1, run, 1, ("mail", "done", NULL)),
    "park": lambda world, run: ending.park(world.desk, W1, run, 1, Park(kind="waiting_input")),
    "hand back": lambda world, run: ending.hand_back(world.desk, W1, run, 1),
    "close": lambda world, run: world.close(run, 1, result="late", caller=W1),
    "place": lambda world, run: workspaces.place(world.desk, W1, run, 1, GROUND),
    "admit turn": lambda world, run: turns.admit(world.desk, W1, run, 1, None),
    "deliver turn": lambda world, run: turns.deliver(world.desk, W1, Named(run_id=run, fence=1, turn=2), 0),
    "complete turn": lambda world, run: turns.complete(world.desk, W1, Named(run_id=run, fence=1, turn=1)),
    "attach": lambda world, run: workspaces.attach(
        world.desk, W1, ground_of(world, run), Attach(identity="body", incarnation=1)
    ),
    "release": lambda world, run: workspaces.release_workspace(world.desk, W1, ground_of(world, run)),
    "report stop": lambda world, run: ending.stop_report(world.desk, W1, run, 1, "saved"),
}


BY_THE_LATE_HOLDER = {"complete effect": "accepted", "fail effect": "accepted", "reconcile effect": "accepted"}
BY_THE_HOLDER = {
    "claim effect": "claimed", "reconcile effect": "effect_not_ambiguous", "report stop": "fence_lost: not_revoked",
}  # fmt: skip
"""What differs from plain acceptance while the lease is held."""


ABOUT_A_BODY = {"attach": "accepted", "release": "accepted"}
"""A fence proves nothing about a body: whoever placed it tells of it, and lets it go until another holds the run."""


def _row(usual: str, **cells: str) -> dict[str, str]:
    return dict.fromkeys(WRITES, usual) | {name.replace("_", " "): cell for name, cell in cells.items()}


def _lost(reason: str, **cells: str) -> dict[str, str]:
    return _row(f"fence_lost: {reason}", **{"renew": f"lost: {reason}", **ABOUT_A_BODY, **cells})


MATRIX: dict[str, dict[str, str]] = {
    "nothing_recorded_yet": _row("accepted", renew="lost: lease_expired") | BY_THE_HOLDER,
    "stopped_past_its_ttl": _lost("lease_expired", close="accepted") | BY_THE_LATE_HOLDER,
    "detached": _lost("detached", close="accepted") | BY_THE_LATE_HOLDER,
    "reserved_by_another": _lost("lease_expired", release="not_allowed"),
    "taken_over": _lost("lease_expired", release="not_allowed"),
    "slice_ended": _row("accepted", renew="slice_ended", deliver_turn="turn_over") | BY_THE_HOLDER,
    "slice_unanswered": _lost("lease_expired", close="accepted") | BY_THE_LATE_HOLDER,
    "parked": _lost("parked"),
    "handed_back": _lost("handed_back"),
    "cancel_asked": _row("accepted", renew="renewed") | BY_THE_HOLDER,
    "cancelled": _lost("cancelled", report_stop="accepted", attach="wrong_phase"),
    "leader_gone": _lost("leader_gone", report_stop="accepted"),
    "paused_by_an_absent_leader": _lost("leader_gone", report_stop="accepted"),
    "workspace_lost": _lost("workspace_lost", report_stop="accepted", attach="workspace_over"),
    "tried_afresh": _lost("workspace_lost", report_stop="accepted", attach="workspace_over"),
    "verdict_pending": _lost("closed"),
    "closed": _lost("closed"),
    "aborted": _lost("lease_expired"),
}
"""What w1 is told, by what happened and what it writes: a refusal with its reason, an answer, or that it stands."""


async def told(world: World, write: str, run_id: str) -> str:
    """What the writer is told, in a word or two."""
    try:
        answer = await WRITES[write](world, run_id)
    except Refusal as refusal:
        reason = refusal.fields().get("reason")
        return f"{refusal.code}: {reason}" if refusal.code == "fence_lost" else refusal.code
    if write == "renew":
        assert isinstance(answer, list)
        outcome, reason = answer[0]["outcome"], answer[0]["reason"]
        return f"{outcome}: {reason}" if outcome == "lost" else str(outcome)
    if write == "claim effect":
        assert isinstance(answer, Done)
        return str(answer.answer["answer"])
    return "accepted"
