"""How a holder lets go: it parks, hands back, closes, or tells how it stopped.

A close may name many runs at once; they land in one append, and each gets its own answer, so one stale fence among
them refuses only its own run. What an end says about the worker is put down in the same append (``commands.vouching``).
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from commands.desk import Caller, Desk, entries_of, merged
from commands.showing import show
from commands.vouching import Ended, about_workers
from domain.closing import Close, code_of
from domain.closing import close as closed
from domain.handing import Park
from domain.handing import hand_back as handed_back
from domain.handing import park as parked
from domain.refusal import InvalidCommand, Refusal
from domain.settling import report_stop
from domain.standing import RunDraft, Standing
from domain.values import Moment, Value
from journal.commit import Decision, Done

CLOSES_MAX = 1_000


class CloseOf(Value, frozen=True, kw_only=True):
    """A close of one run under one fence."""

    run_id: str
    fence: int | None
    close: Close


async def park(desk: Desk, caller: Caller, run_id: str, fence: int | None, command: Park) -> Done[dict[str, Any]]:
    """The run waits for somebody, with its lease given up or kept."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return parked(standing, desk.presented(caller, fence), command, desk.remains(standing), now)

    done = await _let_go(desk, caller, run_id, decide)
    desk.note_fence(fence, "park")
    return done


async def hand_back(desk: Desk, caller: Caller, run_id: str, fence: int | None) -> Done[dict[str, Any]]:
    """The run is given back unfinished and queued as a continuation; nothing is counted."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return handed_back(standing, desk.presented(caller, fence), desk.remains(standing), now)

    done = await _let_go(desk, caller, run_id, decide)
    desk.note_fence(fence, "hand-back")
    return done


async def _let_go(
    desk: Desk, caller: Caller, run_id: str, decide: Callable[[Standing, Moment], RunDraft], error: str = ""
) -> Done[dict[str, Any]]:
    """Carry out what may end a holding, with what that says about its worker."""

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = desk.standing(caller, run_id)
        draft = decide(standing, now)
        about = about_workers(desk, caller, [Ended(standing, draft, error)], now)
        entries = entries_of(draft.entries, run_id) + about.entries
        guards = merged([draft.versions, about.guards])
        return Decision(entries, guards, show(desk, desk.after(standing, draft), now))

    return await desk.acting(caller, run_id, decision)


async def stop_report(
    desk: Desk, caller: Caller, run_id: str, fence: int, report: Literal["saved", "ignored"]
) -> Done[None]:
    """A worker whose lease was taken away tells whether it saved; accepted once, and moves nothing."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return report_stop(standing, desk.presented(caller, fence), report)

    return await desk.on_run(caller, run_id, decide, lambda after, now: None)


async def close(desk: Desk, caller: Caller, closing: CloseOf) -> Done[dict[str, Any]]:
    """The holder says how its attempt ended; the run as it stands then.

    Raises:
        FenceLost: the fence gives no right to close; nothing of the close becomes visible.
    """

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return _closed(desk, caller, standing, closing, now)

    done = await _let_go(desk, caller, closing.run_id, decide, _error_of(closing))
    desk.note_fence(closing.fence, "close")
    return done


async def close_many(desk: Desk, caller: Caller, closings: Sequence[CloseOf]) -> Done[dict[str, Any]]:
    """One answer for each close, in order, all in one append: the run's state, or the refusal that it met."""
    if not 1 <= len(closings) <= CLOSES_MAX:
        raise InvalidCommand(field="closes", value=len(closings), limit=f"1 to {CLOSES_MAX}")
    _refuse_repeats(closings)

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        decided: list[tuple[Standing, RunDraft, CloseOf]] = []
        answers: list[dict[str, Any]] = []
        for closing in closings:
            try:
                standing = desk.standing(caller, closing.run_id)
                draft = _closed(desk, caller, standing, closing, now)
            except Refusal as refusal:
                desk.note_refused(caller, closing.run_id, refusal)
                answers.append(_refused(closing, refusal))
                continue
            decided.append((standing, draft, closing))
            answers.append(_brief(desk.after(standing, draft)))
        ended = [Ended(standing, draft, _error_of(closing)) for standing, draft, closing in decided]
        about = about_workers(desk, caller, ended, now)
        entries = [entry for s, draft, _ in decided for entry in entries_of(draft.entries, s.run_id)]
        guards = merged([*(s.versions for s, _, _ in decided), about.guards])
        return Decision(entries + about.entries, guards, {"closes": answers})

    done = await desk.execute(caller, [closing.run_id for closing in closings], decision)
    for closing, answered in zip(closings, done.answer["closes"], strict=True):
        if "code" not in answered:
            desk.note_fence(closing.fence, "closes")
    return done


def _refuse_repeats(closings: Sequence[CloseOf]) -> None:
    seen: set[str] = set()
    for closing in closings:
        if closing.run_id in seen:
            raise InvalidCommand(field="closes.run_id", value=closing.run_id, limit="named once in a batch")
        seen.add(closing.run_id)


def _brief(after: Standing) -> dict[str, Any]:
    run = after.known
    return {"run_id": run.run_id, "state": after.state, "fence": after.lease.fence, "due_at": _due(after)}


def _due(after: Standing) -> Any:
    return getattr(after.known.phase, "due_at", None)


def _refused(closing: CloseOf, refusal: Refusal) -> dict[str, Any]:
    return {"run_id": closing.run_id, "code": refusal.code, "detail": str(refusal), **refusal.fields()}


def _error_of(closing: CloseOf) -> str:
    return code_of(closing.close.error) if closing.close.outcome == "failed" else ""


def _closed(desk: Desk, caller: Caller, standing: Standing, closing: CloseOf, now: Moment) -> RunDraft:
    return closed(standing, desk.presented(caller, closing.fence), closing.close, desk.remains(standing), now)
