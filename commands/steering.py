"""What a leader may ask of a run that it has submitted. Each answers with the run as it stands afterwards."""

from collections.abc import Callable
from typing import Any, Literal

from commands.desk import Caller, Desk
from commands.showing import show
from domain import steering
from domain.settling import Cancel, Verdict
from domain.settling import cancel as cancelled
from domain.settling import verdict as judged
from domain.standing import RunDraft, Standing
from domain.values import Json, Moment
from journal.commit import Done

Decide = Callable[[Standing, Moment], RunDraft]


async def _steer(desk: Desk, caller: Caller, run_id: str, action: str, decide: Decide) -> Done[dict[str, Any]]:
    def checked(standing: Standing, now: Moment) -> RunDraft:
        desk.require_leader(caller, standing.known, action)
        return decide(standing, now)

    return await desk.on_run(caller, run_id, checked, lambda after, now: show(desk, after, now))


async def answer(desk: Desk, caller: Caller, run_id: str, given: Json) -> Done[dict[str, Any]]:
    """The run's question is answered: its holder goes on if it kept a live lease, else the run is queued in front."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return steering.answer(standing, given, caller.principal, desk.remains(standing), now)

    return await _steer(desk, caller, run_id, "answer this run", decide)


async def resume(desk: Desk, caller: Caller, run_id: str) -> Done[dict[str, Any]]:
    """The wait is over without an answer: for a run that is paused or waits to be taken over."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return steering.resume(standing, caller.principal, desk.remains(standing), now)

    return await _steer(desk, caller, run_id, "resume this run", decide)


async def pause(desk: Desk, caller: Caller, run_id: str) -> Done[dict[str, Any]]:
    """The run is paused at once when nobody acts for it, else its holder is asked to."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return steering.pause(standing, caller.principal, now)

    return await _steer(desk, caller, run_id, "pause this run", decide)


async def cancel(desk: Desk, caller: Caller, run_id: str, *, keep_workspaces: bool) -> Done[dict[str, Any]]:
    """The run is cancelled at once when nobody holds it; else its holder may save and close within the grace."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        wish = Cancel(by=caller.principal, grace_s=desk.timers.cancel_grace_s, keep_workspaces=keep_workspaces)
        return cancelled(standing, wish, desk.remains(standing), now)

    return await _steer(desk, caller, run_id, "cancel this run", decide)


async def verdict(
    desk: Desk, caller: Caller, run_id: str, said: Literal["succeeded", "failed"], result: Json
) -> Done[dict[str, Any]]:
    """The leader judges a run whose worker has closed."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        command = Verdict(verdict=said, by=caller.principal, result=result)
        return judged(standing, command, desk.remains(standing), now)

    return await _steer(desk, caller, run_id, "judge this run", decide)
