"""Every step that anybody could take next in a small world, each one real decision of the domain.

Workers claim, write, close and come back as zombies, with every fence that they were ever granted; the leader steers,
connects and drops; clocks run out in any order; the service restarts. The process manager is given more freedom than it
has: whatever a clock allows may be carried out at any moment after it, in any order. What holds here holds however the
policies are scheduled.
"""

from collections.abc import Iterator
from functools import partial
from typing import Literal

import msgspec

from domain import absence, claiming, closing, effects, handing, presence, settling, steering
from domain.lease import LeaseMark, Reserved
from domain.refusal import Refusal
from domain.run import Queued
from domain.run_facts import Work
from domain.standing import Presented, Remains, RunDraft, holder, late_holder
from domain.values import NULL, cite, to_json
from simulation.small import (
    GRACE_S,
    LEADER,
    NOW,
    TTL_S,
    Bounds,
    Decide,
    RunSeen,
    State,
    Step,
    Taken,
    decided,
    on_run,
    present_after,
    replaced,
)
from simulation.small_grounds import ground_steps, ground_writes

PARTIAL = to_json("half")
CLOSES = {
    "succeeds on": closing.Close(outcome="succeeded", result=to_json("whole")),
    "fails on": closing.Close(outcome="failed", error=to_json("no")),
    "fails for good on": closing.Close(outcome="failed", error=to_json("never"), retryable=False),
}
PARKS = {
    "parks": handing.Park(kind="waiting_input", question=to_json("?")),
    "keeps its lease and parks": handing.Park(kind="waiting_input", question=to_json("?"), keep_lease=True),
    "pauses": handing.Park(kind="paused"),
}
ENDS: tuple[Literal["completed", "failed"], ...] = ("completed", "failed")
FOUND: tuple[effects.Resolution, ...] = ("done", "not_done")
VERDICTS: tuple[Literal["succeeded", "failed"], ...] = ("succeeded", "failed")


def steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """Everything that anybody could do next."""
    yield from _leader_steps(state)
    for number, seen in enumerate(state.runs):
        yield from _clock_steps(number, seen)
        yield from ground_steps(number, seen, _remains(seen))
        yield from _steering_steps(number, seen, bounds)
        for worker in bounds.worker_names:
            if seen.standing.lease.fence < bounds.fences:
                yield from _claim_steps(number, seen, worker, bounds)
            for fence, granted in enumerate(seen.granted, 1):
                if granted:
                    yield from _write_steps(number, worker, fence, bounds)


def _remains(seen: RunSeen) -> Remains:
    return Remains(partial=PARTIAL, partial_fence=seen.partial_fence) if seen.partial_fence else Remains()


def _claim_steps(number: int, seen: RunSeen, worker: str, bounds: Bounds) -> Iterator[Step]:
    by_queue = claiming.Grant(worker=worker, cause="queue")
    by_id = claiming.Grant(worker=worker, cause="id")
    yield on_run(f"{worker} claims r{number} by queue", number, partial(_claim, by_queue))
    yield on_run(f"{worker} claims r{number} by id", number, partial(_claim, by_id))
    if bounds.reserving:
        ahead = msgspec.structs.replace(by_queue, token=_token(worker, seen.standing.lease.fence + 1))
        yield on_run(f"{worker} reserves r{number}", number, partial(_claim, ahead))


def _token(worker: str, fence: int) -> str:
    return f"{worker}@{fence}"


def _claim(grant: claiming.Grant, seen: RunSeen) -> RunDraft:
    return claiming.claim(seen.standing, grant, Work(), NOW)


def _write_steps(number: int, worker: str, fence: int, bounds: Bounds) -> Iterator[Step]:
    """Every guarded write under one fence, by one worker, whether or not it was ever its own."""
    shown = Presented(fence=fence, workers=frozenset({worker}))
    for text, decide in _writes(shown, _token(worker, fence), bounds):
        yield on_run(f"{worker} under fence {fence} {text} r{number}", number, decide)
    saving = partial(_saved, number=number, shown=shown)
    yield Step(f"{worker} under fence {fence} saves a partial of r{number}", None, saving)


def _writes(shown: Presented, token: str, bounds: Bounds) -> Iterator[tuple[str, Decide]]:
    for text, command in CLOSES.items():
        yield text, partial(_close, shown, command)
    for text, parking in PARKS.items():
        yield text, partial(_park, shown, parking)
    yield "hands back", lambda seen: handing.hand_back(seen.standing, shown, _remains(seen), NOW)
    yield "reports its stop of", lambda seen: settling.report_stop(seen.standing, shown, "saved")
    if bounds.reserving:
        yield "binds", lambda seen: claiming.bind(seen.standing, token, NOW)
        yield "gives back unbound", lambda seen: claiming.cancel_reservation(seen.standing, token, "given_back")
    yield from ground_writes(shown, bounds)
    for key in bounds.effect_keys:
        yield f"claims effect {key} of", partial(_begin, shown, key)
        for end in ENDS:
            yield f"reports effect {key} {end} of", partial(_finish, shown, key, end)


def _close(shown: Presented, command: closing.Close, seen: RunSeen) -> RunDraft:
    return closing.close(seen.standing, shown, command, _remains(seen), NOW)


def _park(shown: Presented, parking: handing.Park, seen: RunSeen) -> RunDraft:
    return handing.park(seen.standing, shown, parking, _remains(seen), NOW)


def _begin(shown: Presented, key: str, seen: RunSeen) -> RunDraft:
    """As the command does: only while running, under the holder's fence."""
    held, draft = holder(seen.standing, shown), seen.standing.draft()
    if seen.run.state == "running":
        command = effects.ClaimEffect(key=key, payload_digest="d", fence=held.fence)
        for fact in effects.claim(seen.standing.effects, command, NOW.wall)[2]:
            draft.on_effects(fact)
    return draft


def _finish(shown: Presented, key: str, end: Literal["completed", "failed"], seen: RunSeen) -> RunDraft:
    """As the command does: the holder, or the late holder, says how its effect ended."""
    draft, standing = seen.standing.draft(), seen.standing
    fence = standing.lease.fence if late_holder(standing, shown) else holder(standing, shown).fence
    for fact in effects.finish(standing.effects, key, fence, end, to_json(end)):
        draft.on_effects(fact)
    return draft


def _saved(state: State, *, number: int, shown: Presented) -> State | None:
    try:
        held = holder(state.runs[number].standing, shown)
    except Refusal:
        return None
    return replaced(state, number, partial_fence=held.fence)


def _steering_steps(number: int, seen: RunSeen, bounds: Bounds) -> Iterator[Step]:
    wish = settling.Cancel(by=LEADER)
    asked: dict[str, Decide] = {
        f"cancel of r{number} is asked": lambda seen: settling.cancel(seen.standing, wish, _remains(seen), NOW),
        f"pause of r{number} is asked": lambda seen: steering.pause(seen.standing, LEADER, NOW),
        f"r{number} is resumed": lambda seen: steering.resume(seen.standing, LEADER, _remains(seen), NOW),
    }
    if len(seen.run.answers) < bounds.answers:
        asked[f"r{number} is answered"] = _answer
    for verdict in VERDICTS:
        asked[f"r{number} is judged {verdict}"] = partial(_judge, settling.Verdict(verdict=verdict, by=LEADER))
    for key in bounds.effect_keys:
        for found in FOUND:
            asked[f"effect {key} of r{number} is found {found}"] = partial(_reconcile, key, found)
    for text, decide in asked.items():
        yield on_run(text, number, decide)


def _answer(seen: RunSeen) -> RunDraft:
    return steering.answer(seen.standing, NULL, LEADER, _remains(seen), NOW)


def _judge(verdict: settling.Verdict, seen: RunSeen) -> RunDraft:
    return settling.verdict(seen.standing, verdict, _remains(seen), NOW)


def _reconcile(key: str, found: effects.Resolution, seen: RunSeen) -> RunDraft:
    draft = seen.standing.draft()
    for fact in effects.reconcile(seen.standing.effects, key, found, NULL, LEADER):
        draft.on_effects(fact)
    return draft


def _clock_steps(number: int, seen: RunSeen) -> Iterator[Step]:
    """Clocks of one run that can run out, and what a clock that has run out lets the service do."""
    run, lease, mark = seen.run, seen.standing.lease, seen.standing.mark
    if mark is not None and mark.live(NOW):
        yield Step(f"the lease of r{number} runs out", None, partial(_over, number=number))
        yield Step(f"the worker of r{number} detaches", None, partial(_over, number=number, detached=True))
        yield on_run(f"the slice of r{number} ends", number, lambda s: handing.end_slice(s.standing))
    if mark is not None and not mark.live(NOW):
        yield on_run(f"r{number} expires", number, lambda s: handing.expire(s.standing, _remains(s), NOW))
        yield Step(f"r{number} is renewed just in time", None, partial(renewed, number=number))
    if isinstance(lease, Reserved):
        token = lease.token
        yield on_run(f"the reservation of r{number} lapses", number, lambda s: claiming.lapse(s.standing, token))
    if run.cancel is not None:
        due = f"the cancel grace of r{number} ends"
        yield on_run(due, number, lambda s: settling.cancel_due(s.standing, _remains(s), NOW))
    if isinstance(run.phase, Queued) and run.phase.due_at > NOW.wall:
        yield Step(f"r{number} falls due", None, partial(_due, number=number))


def _over(state: State, *, number: int, detached: bool = False) -> State:
    mark = _mark(state, number)
    full = NOW.mono + TTL_S if detached else None
    past = msgspec.structs.replace(mark, deadline=NOW.mono, detached=detached, full_deadline=full)
    return _marked(state, number, past)


def renewed(state: State, *, number: int) -> State:
    """The lease of this run has its full ttl again."""
    mark = _mark(state, number)
    return _marked(state, number, LeaseMark(fence=mark.fence, deadline=NOW.mono + TTL_S, renewed_at=NOW.wall))


def _mark(state: State, number: int) -> LeaseMark:
    mark = state.runs[number].standing.mark
    assert mark is not None
    return mark


def _marked(state: State, number: int, mark: LeaseMark) -> State:
    return replaced(state, number, standing=msgspec.structs.replace(state.runs[number].standing, mark=mark))


def _due(state: State, *, number: int) -> State:
    standing = state.runs[number].standing
    phase = msgspec.structs.replace(standing.known.phase, due_at=NOW.wall)
    run = msgspec.structs.replace(standing.known, phase=phase)
    return replaced(state, number, standing=msgspec.structs.replace(standing, run=run))


def _leader_steps(state: State) -> Iterator[Step]:
    for link in ("c1", "c2"):
        if link in state.presence.connections:
            yield Step(f"the leader drops {link}", None, partial(_dropped, link=link))
        else:
            yield Step(f"the leader connects as {link}", None, partial(_connected, link=link))
    if presence.absent(state.presence) and not state.grace_over:
        yield Step("the leader's grace runs out", None, lambda s: msgspec.structs.replace(s, grace_over=True))
    if state.grace_over:
        yield Step("the leader is declared gone", None, _declared)
        for number in range(len(state.runs)):
            yield Step(f"r{number} is settled by absence", number, partial(_left_alone, number=number))
    yield Step("the service restarts", None, _restarted)


def _connected(state: State, *, link: str) -> State:
    command = presence.Connect(leader_id=LEADER, connection_id=link, kind="stream", boot_id="boot")
    facts = presence.connect(state.presence, command, NOW.wall)
    return msgspec.structs.replace(state, presence=present_after(state.presence, facts), grace_over=False)


def _dropped(state: State, *, link: str) -> State:
    facts = presence.disconnect(state.presence, LEADER, link, "closed", NOW.wall)
    return msgspec.structs.replace(state, presence=present_after(state.presence, facts))


def _declared(state: State) -> State:
    facts = presence.declare_gone(state.presence, LEADER, GRACE_S, GRACE_S)
    return msgspec.structs.replace(state, presence=present_after(state.presence, facts))


def _left_alone(state: State, *, number: int) -> Taken | None:
    """Presence is looked at again immediately before, as the command does that settles."""
    there = state.presence
    gone = presence.gone_for_at_least(there, GRACE_S, GRACE_S) and there.gone_since == there.zero_since
    if not gone or there.zero_since is None:
        return None
    cites = (cite(presence.presence_stream("default", LEADER), there.gone_version),)
    away = absence.Absence(leader_id=LEADER, zero_since=there.zero_since, grace_s=GRACE_S, cites=cites)
    return decided(
        state, number=number, decide=lambda seen: absence.leader_gone(seen.standing, away, _remains(seen), NOW)
    )


def _restarted(state: State) -> State:
    """Connections of the earlier boot are void, every lease has its full ttl, every absence begins anew."""
    facts = presence.reseed(state.presence, LEADER, "boot", NOW.wall)
    after = msgspec.structs.replace(state, presence=present_after(state.presence, facts), grace_over=False)
    for number, seen in enumerate(after.runs):
        if seen.standing.mark is not None:
            after = renewed(after, number=number)
    return after
