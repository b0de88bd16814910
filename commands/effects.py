"""The effect ledger of a run, asked and told under its fence.

Beginning an effect is for a holder that acts: not while it is parked. Finishing one is for its holder, also while
parked with the lease kept, and for the late holder whose fence began it. Reconciling an ambiguous one is for the
holder, the late holder, the run's leader or an operator, at any time, also after the run has ended.
"""

from collections.abc import Callable
from typing import Any, Literal

from commands.desk import Caller, Desk
from domain.effects import ClaimEffect, EffectFact, Resolution, finish, reconcile
from domain.effects import claim as claimed
from domain.lease import Held
from domain.run import Parked, WrongState
from domain.standing import Standing, effects_stream, holder, late_holder, lease_stream
from domain.values import Json, Moment, digest
from journal.commit import Decision, Done, Entry


async def claim_effect(
    desk: Desk, caller: Caller, run_id: str, fence: int | None, wanted: tuple[str, Json]
) -> Done[dict[str, Any]]:
    """Whether the worker may do this: ``claimed``, or the outcome to use instead, ``mismatch`` or ``ambiguous``.

    Raises:
        FenceLost: the fence gives no right to act.
        WrongState: the run is parked; effects may be finished then, not begun.
    """
    key, payload = wanted

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = desk.standing(caller, run_id)
        held = holder(standing, desk.presented(caller, fence))
        if isinstance(standing.known.phase, Parked):
            raise WrongState(run_id=run_id, state=standing.state, wanted="running, to begin an effect")
        command = ClaimEffect(key=key, payload_digest=digest(payload), fence=held.fence, command_id=caller.command_id)
        answer, outcome, facts = claimed(standing.effects, command, now.wall)
        return _decided(standing, facts, {"answer": answer, "outcome": outcome})

    return await _acted(desk, caller, run_id, fence, decision)


async def finish_effect(
    desk: Desk,
    caller: Caller,
    run_id: str,
    fence: int | None,
    told: tuple[str, Literal["completed", "failed"], Json],
) -> Done[dict[str, Any]]:
    """The worker that began the effect says how it ended."""
    key, state, outcome = told

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = desk.standing(caller, run_id)
        presented = desk.presented(caller, fence)
        under = fence if late_holder(standing, presented) and fence else holder(standing, presented).fence
        facts = finish(standing.effects, key, under, state, outcome)
        return _decided(standing, facts, {"key": key, "state": state, "outcome": outcome})

    return await _acted(desk, caller, run_id, fence, decision)


async def reconcile_effect(
    desk: Desk, caller: Caller, run_id: str, fence: int | None, told: tuple[str, Resolution, Json]
) -> Done[dict[str, Any]]:
    """Somebody found out whether an ambiguous effect happened."""
    key, resolution, outcome = told
    by_worker = fence is not None or caller.role == "worker"

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = desk.standing(caller, run_id)
        if by_worker:
            _require_holder(desk, caller, standing, fence, key)
        else:
            _require_leader(desk, caller, standing)
        facts = reconcile(standing.effects, key, resolution, outcome, caller.principal)
        return _decided(standing, facts, {"key": key, "state": "reconciled", "resolution": resolution})

    if by_worker:
        return await _acted(desk, caller, run_id, fence, decision)
    return await desk.execute(caller, (run_id,), decision)


def _require_holder(desk: Desk, caller: Caller, standing: Standing, fence: int | None, key: str) -> None:
    """The holder reconciles any effect of its run, the late holder only those that its own fence began."""
    presented, effect = desk.presented(caller, fence), standing.effects.effects.get(key)
    its_own = effect is None or effect.fence == fence
    if not (late_holder(standing, presented) and its_own):
        holder(standing, presented)


def _require_leader(desk: Desk, caller: Caller, standing: Standing) -> None:
    desk.require_leader(caller, standing.known, "reconcile this run's effects")


def _decided(standing: Standing, facts: list[EffectFact], answer: dict[str, Any]) -> Decision[dict[str, Any]]:
    stream = effects_stream(standing.run_id)
    return Decision([Entry(stream, fact, standing.run_id) for fact in facts], standing.versions, answer)


async def _acted(
    desk: Desk, caller: Caller, run_id: str, fence: int | None, decision: Callable[[Moment], Decision[Any]]
) -> Done[dict[str, Any]]:
    """The answer to the worker; its asking is a sign of work, and renews the lease if it holds it."""
    done: Done[dict[str, Any]] = await desk.acting(caller, run_id, decision)
    if isinstance(desk.journal.streams.load(lease_stream(run_id)), Held):
        desk.touch(run_id)
    desk.note_fence(fence, "effects")
    return done
