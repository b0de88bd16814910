"""A small world: a few runs, workers and one leader as plain values, with nothing drawn and nothing hidden.

Time is an actor like the others (see `simulation.small_steps`). Every fact is recorded at one and the same instant, and
that a clock has run out makes its deadline past, so two states that differ only in what time it is are one state.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from domain import effects, presence, steering
from domain.lease import VACANT, Held, LeaseMark, Reserved, Vacant
from domain.lease import evolve as evolve_lease
from domain.presence import Presence
from domain.refusal import Refusal
from domain.run import ABSENT, Run, Settled
from domain.run import evolve as evolve_run
from domain.standing import RunDraft, Standing
from domain.submission import Policy, Submit
from domain.values import Fact, Value
from domain.workspace import UNPLACED, Unplaced, Workspace
from domain.workspace import evolve as evolve_workspace
from simulation.clock import START

NOW = START
TTL_S = 60.0
GRACE_S = 60.0
LEADER = "lena"


class Bounds(Value, frozen=True, kw_only=True):
    """How large a world is, and how far its numbers may rise."""

    workers: int = 2
    runs: int = 2
    effects: int = 1
    fences: int = 3
    """The highest fence that is granted to a worker."""
    answers: int = 1
    """Answers that a run is given; it remembers each, so that their number is part of the world."""
    max_attempts: int = 2
    verdict_by_leader: bool = False
    sliced: bool = False
    reserving: bool = True
    grounds: int = 0
    """Workspaces that are placed."""
    turns: int = 0
    on_lost: Literal["settle_lost", "retry_fresh", "park"] = "settle_lost"

    @property
    def worker_names(self) -> tuple[str, ...]:
        """What the workers are called."""
        return tuple(f"w{number}" for number in range(self.workers))

    @property
    def effect_keys(self) -> tuple[str, ...]:
        """Under which keys effects are claimed."""
        return tuple(f"e{number}" for number in range(self.effects))


class RunSeen(Value, frozen=True, kw_only=True):
    """One run with its lease, its effects, and what is known about it without a fact."""

    standing: Standing
    granted: tuple[str, ...] = ()
    """Who was granted which fence: the first entry is fence 1."""
    partial_fence: int = 0
    ended: tuple[str, ...] = ()
    """The workspaces whose bodies have really ended, whoever knows of it."""

    @property
    def run(self) -> Run:
        """The run."""
        return self.standing.known


class State(Value, frozen=True, kw_only=True):
    """Everything that the next step may depend on."""

    runs: tuple[RunSeen, ...]
    presence: Presence = Presence()
    grace_over: bool = False


class Step(NamedTuple):
    """What somebody could do: its line in the story, and the decision that it asks for."""

    text: str
    run: int | None
    take: Callable[[State], "Taken | State | None"]


class Taken(NamedTuple):
    """A decision about one run: its facts, and how the world stands when they are durable."""

    entries: Sequence[tuple[str, Fact]]
    state: State


def start(bounds: Bounds) -> State:
    """The world at its beginning: every run submitted, its leader never seen."""
    policy = Policy(
        max_attempts=bounds.max_attempts,
        verdict_by="leader" if bounds.verdict_by_leader else "worker",
        max_hold_s=600.0 if bounds.sliced else None,
        on_workspace_lost=bounds.on_lost,
    )
    runs = []
    for number in range(bounds.runs):
        wish = steering.submit(f"r{number}", "default", Submit(leader_id=LEADER, policy=policy), NOW)
        standing = Standing(run_id=wish.run_id, run=evolve_run(ABSENT, wish), lease=VACANT, effects=effects.EMPTY)
        runs.append(RunSeen(standing=standing))
    unseen = presence.reseed(Presence(), LEADER, "submitted", NOW.wall)
    return State(runs=tuple(runs), presence=present_after(Presence(), unseen))


Decide = Callable[[RunSeen], RunDraft]
"""One decision about one run."""


def on_run(text: str, number: int, decide: Decide) -> Step:
    """The step that decides this about that run."""
    return Step(text, number, partial(decided, number=number, decide=decide))


def decided(state: State, *, number: int, decide: Decide) -> Taken | None:
    """What was decided, and how the world stands then; None for a refusal."""
    seen = state.runs[number]
    try:
        draft = decide(seen)
    except Refusal:
        return None
    return Taken(draft.entries, with_facts(state, number, draft.entries))


def with_facts(state: State, number: int, entries: Sequence[tuple[str, Fact]]) -> State:
    """How the world stands when these facts of one run are durable: folded, with the marks that they call for."""
    seen = state.runs[number]
    standing, granted = seen.standing, seen.granted
    run, lease, ledger, mark = standing.run, standing.lease, standing.effects, standing.mark
    grounds: dict[str, Workspace | Unplaced] = {each.workspace_id: each for each in standing.workspaces}
    for stream, fact in entries:
        match stream.partition("-")[0]:
            case "run":
                run = evolve_run(run, fact)  # type: ignore[arg-type]
            case "lease":
                lease = evolve_lease(lease, fact)  # type: ignore[arg-type]
                mark = _mark_after(mark, lease)
            case "workspace":
                name = stream.partition("-")[2]
                grounds[name] = evolve_workspace(grounds.get(name, UNPLACED), fact)  # type: ignore[arg-type]
            case _:
                ledger = effects.evolve(ledger, fact)  # type: ignore[arg-type]
        if isinstance(lease, Held | Reserved) and lease.fence > len(granted):
            granted = (*granted, *("" for _ in range(lease.fence - len(granted) - 1)), lease.worker)
    stood_on = tuple(each for each in grounds.values() if isinstance(each, Workspace))
    after = Standing(run_id=standing.run_id, run=run, lease=lease, effects=ledger, mark=mark, workspaces=stood_on)
    return replaced(state, number, standing=after, granted=granted)


def _mark_after(mark: LeaseMark | None, lease: Vacant | Held | Reserved) -> LeaseMark | None:
    if not isinstance(lease, Held):
        return None
    if mark is not None and mark.fence == lease.fence:
        return mark
    return LeaseMark(fence=lease.fence, deadline=NOW.mono + TTL_S, renewed_at=NOW.wall)


def replaced(state: State, number: int, **changes: Any) -> State:
    """The world with one run seen otherwise."""
    seen = msgspec.structs.replace(state.runs[number], **changes)
    return msgspec.structs.replace(state, runs=(*state.runs[:number], seen, *state.runs[number + 1 :]))


def present_after(there: Presence, facts: Sequence[presence.PresenceFact]) -> Presence:
    """The leader's presence after these facts."""
    for fact in facts:
        there = presence.evolve(there, fact)
    return there


def quiet(state: State) -> bool:
    """Whether every run has settled."""
    return all(isinstance(seen.run.phase, Settled) for seen in state.runs)
