"""How a world ends: faults stop, and everything must come to an end within bounded time.

In a `calm` world nobody cancels anything: workers finish what they hold, leaders answer, resume and judge, observers
list their scopes, providers destroy what is to be destroyed. Every run must have settled within `CALM_S` seconds. A
world that is `let_go` is one in which everybody stops at once, and what is open is cancelled. Either way nothing may be
left: no lease, timer, guard, mark or connection.
"""

from collections.abc import Sequence
from typing import TypeVar

from commands import queues, steering
from domain.run import Queued
from domain.run_facts import State
from domain.values import NULL
from simulation.actors import QUEUES, short
from simulation.broken import LawBroken
from simulation.cast import Cast
from simulation.laws import L12
from simulation.messages import Message
from simulation.workers import Worker

T = TypeVar("T")

CALM_S = 60.0
"""Seconds within which every run of a world without faults has settled."""
ROUNDS_PER_S = 2
PER_KEY = 5
"""Leases under one key, once limits are no matter any more."""
LIKELY = 60
GONE_S = 600.0
"""Long enough for every clock to run out."""


async def let_go(cast: Cast) -> None:
    """Everybody stops; what is open is cancelled; nothing is left."""
    cast.world.tell("world", "is let go")
    cast.world.heal()
    for run_id in cast.world.history.open_runs():
        message = cast.leader.message(
            f"cancels {short(run_id)}",
            lambda desk, caller, run_id=run_id: steering.cancel(desk, caller, run_id, keep_workspaces=False),  # type: ignore[misc]
        )
        await cast.world.deliver(message)
    await leave_nothing(cast)


async def calm(cast: Cast) -> None:
    """Faults stop, and nobody cancels: everything settles by being done.

    Raises:
        LawBroken: a run is still open after `CALM_S` seconds.
    """
    world = cast.world
    world.tell("world", "is calm from now on")
    world.heal()
    for message in cast.held_back:
        await world.deliver(message)
    for who in (*cast.workers, *cast.observers):
        who.frozen, who.estranged = False, False
        who.chooser = PLAIN
        await world.deliver(who.register())
        await world.deliver(cast.leader.release(who.name))
    for queue in QUEUES:
        await world.deliver(_unlimited(cast, queue))
    _set_the_wall_right(cast)
    for _ in range(int(CALM_S * ROUNDS_PER_S)):
        await _round(cast)
        if not world.history.open_runs():
            break
        await world.pass_time(1.0 / ROUNDS_PER_S)
    await world.recorded()
    world.check()
    if left := world.history.open_runs():
        told = [(short(run_id), world.history.standing(run_id).state) for run_id in left]
        raise LawBroken(L12, f"still open after {CALM_S:g} s in which nothing failed", told)
    await leave_nothing(cast)


def _set_the_wall_right(cast: Cast) -> None:
    """What is due on a day that the wall clock was once set to is due now."""
    world = cast.world
    runs = [world.history.standing(run_id).known for run_id in world.history.open_runs()]
    queued = [run.phase.due_at for run in runs if isinstance(run.phase, Queued)]
    last = max([*queued, *(run.submission.due_at for run in runs), world.clock.now.wall])
    if last > world.clock.now.wall:
        world.set_wall((last - world.clock.now.wall).total_seconds())


async def leave_nothing(cast: Cast) -> None:
    """Links end, bodies are destroyed, clocks run out, and nothing may be left."""
    world = cast.world
    for link in list(world.attendance.links):
        await world.attendance.drop(link, "closed", world.clock.served_s)
    await world.pass_time(cast.world.desk.timers.cancel_grace_s)
    for workspace in world.history.grounds():
        await world.deliver(cast.provider.release(workspace.workspace_id))
        await world.deliver(cast.provider.destroy(workspace.workspace_id))
    await world.pass_time(GONE_S)
    await world.recorded()
    world.check()
    world.check_quiet()
    world.check_replay()


class Plain:
    """Chooses the first of everything, and what is likely."""

    def pick(self, options: Sequence[T]) -> T:
        """The first."""
        return options[0]

    def chance(self, percent: int) -> bool:
        """Whether it is likely."""
        return percent > LIKELY


PLAIN = Plain()


async def _round(cast: Cast) -> None:
    """Everybody does what is next."""
    world, history = cast.world, cast.world.history
    for who in (*cast.workers, *cast.observers):
        await world.deliver(who.heartbeat())
        for message in _work(who):
            await world.deliver(message)
    for run_id in history.open_runs():
        wanted = _steer(cast, run_id, history.standing(run_id).state)
        if wanted is not None:
            await world.deliver(wanted)


def _work(who: Worker) -> list[Message]:
    """It finishes what it holds, and asks for more."""
    finishing = [who.finish(run_id, fence) for run_id, fence in list(who.held.items())]
    return [*finishing, who.ask()]


def _steer(cast: Cast, run_id: str, state: State) -> Message | None:
    leader, name = cast.leader, short(run_id)
    match state:
        case "waiting_input" | "waiting_peer":
            return leader.message(f"answers {name}", lambda desk, caller: steering.answer(desk, caller, run_id, NULL))
        case "paused" | "waiting_takeover":
            return leader.message(f"resumes {name}", lambda desk, caller: steering.resume(desk, caller, run_id))
        case "waiting_verdict":
            return leader.message(
                f"judges {name}", lambda desk, caller: steering.verdict(desk, caller, run_id, "succeeded", NULL)
            )
        case _:
            return None


def _unlimited(cast: Cast, queue: str) -> Message:
    return cast.leader.message(
        f"lifts the limits of {queue}", lambda desk, caller: queues.configure_queue(desk, caller, queue, None, PER_KEY)
    )
