"""Every interleaving of a small world, not a sample of them: breadth first, each distinct state once, to a depth.

A world that is `small` is walked through completely up to a depth, over the real deciders. After every step the laws of
`simulation.laws` are held against the decision, exactly as they are against a simulated service. States that differ
only in the names of workers or runs, or in versions and citations, are one state; what is compared is everything else.

A breach is told as the shortest story that leads to it, since breadth first finds that one. From states that were
reached the world is also let go now and then: everything that is open is cancelled, clocks run out, and every run must
have settled within a bounded number of steps.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import NamedTuple

import msgspec

from domain.run_facts import RunSettled
from simulation.laws import L3, L6, L12, LawBroken, check_decision
from simulation.small import Bounds, RunSeen, State, Step, Taken, quiet, start
from simulation.small_grounds import check_ends, plain_grounds
from simulation.small_steps import steps

LET_GO_EVERY = 64
"""Of so many distinct states, one is let go to its end."""
LET_GO_STEPS = 32
"""Steps within which a world that is let go must have settled."""
FINISHING = ("cancel of", "the cancel grace", "is declared gone")

WORLDS = (
    Bounds(),
    Bounds(runs=1, effects=2, max_attempts=3),
    Bounds(runs=1, verdict_by_leader=True),
    Bounds(runs=1, sliced=True),
    Bounds(workers=3, runs=1, effects=0, fences=4, max_attempts=3),
    Bounds(runs=1, effects=0, fences=2, reserving=False, grounds=1),
    Bounds(runs=1, effects=0, fences=2, reserving=False, grounds=1, on_lost="retry_fresh"),
    Bounds(runs=1, effects=0, fences=2, reserving=False, grounds=1, on_lost="park"),
    Bounds(workers=1, runs=1, effects=0, fences=1, reserving=False, grounds=1, turns=1),
    Bounds(workers=1, runs=1, effects=0, fences=2, reserving=False, grounds=2, on_lost="retry_fresh"),
)
"""The small worlds that are walked, the one with everything in twos first."""
DEPTH_MAX = 64

Key = bytes


class Explored(NamedTuple):
    """What an exploration has seen."""

    bounds: Bounds
    depth: int
    """Steps from the start within which every interleaving was taken."""
    states: int
    transitions: int
    """Steps that were decided and changed something."""
    refused: int
    """Steps that were refused, or changed nothing."""
    complete: bool
    """Whether there was nothing further to reach within the bounds of the world."""
    kinds: Counter[str]
    """How often each kind of step changed something."""

    def line(self) -> str:
        """One line for people."""
        b = self.bounds
        end = "complete" if self.complete else "to that depth"
        return (
            f"{b.workers} workers x 1 leader x {b.runs} runs x {b.effects} effects, fences to {b.fences}"
            f"{', judged by the leader' if b.verdict_by_leader else ''}{', sliced' if b.sliced else ''}{_stood_on(b)}: "
            f"depth {self.depth} ({end}), {self.states:,} states, {self.transitions:,} transitions, "
            f"{self.refused:,} refused"
        )


def _stood_on(bounds: Bounds) -> str:
    if not bounds.grounds:
        return ""
    return f", {bounds.grounds} workspaces ({bounds.on_lost}){', turns' if bounds.turns else ''}"


class Breach(AssertionError):
    """A law is broken in a small world; the message is the shortest story that leads there."""

    def __init__(self, broken: LawBroken, story: Iterable[str]) -> None:
        super().__init__("\n".join(f"{number:3}  {line}" for number, line in enumerate(story, 1)) + f"\n\n{broken}")
        self.broken = broken


class Explorer:
    """Walks one small world."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.kinds: Counter[str] = Counter()
        self._from: dict[Key, tuple[Key, str] | None] = {}
        self._transitions = self._refused = 0

    def explore(self, depth: int, may_go_on: Callable[[], bool] = lambda: True) -> Explored:
        """Every interleaving of so many steps, or of as many as there is leave for.

        Args:
            depth: steps from the start, at most.
            may_go_on: asked before each state; False ends it, and the depth that is told is the last whole one.

        Raises:
            Breach: a law does not hold; with the shortest story that shows it.
        """
        first = start(self.bounds)
        level = {self._key(first): first}
        self._from.update(dict.fromkeys(level))
        reached = 0
        while level and reached < depth:
            following: dict[Key, State] = {}
            for key, state in level.items():
                if not may_go_on():
                    return self._seen(reached, complete=False)
                self._expand(key, state, following)
            reached, level = reached + 1, following
        return self._seen(reached, complete=not level)

    def _seen(self, depth: int, *, complete: bool) -> Explored:
        return Explored(
            self.bounds, depth, len(self._from), self._transitions, self._refused, complete, Counter(self.kinds)
        )

    def _expand(self, key: Key, state: State, following: dict[Key, State]) -> None:
        for step in steps(state, self.bounds):
            after = self._take(key, state, step)
            if after is None:
                continue
            its_key = self._key(after)
            if its_key not in self._from:
                self._from[its_key] = (key, step.text)
                following[its_key] = after
                if len(self._from) % LET_GO_EVERY == 0:
                    self._let_go(its_key, after)

    def _take(self, key: Key, state: State, step: Step) -> State | None:
        """The state after the step; None when it was refused or changed nothing."""
        taken = self._told(key, step.text, lambda: _judged(state, step))
        changed = isinstance(taken, State) or (taken is not None and bool(taken.entries))
        self._transitions += changed
        self._refused += not changed
        if not changed or taken is None:
            return None
        self.kinds[kind_of(step.text)] += 1
        return taken if isinstance(taken, State) else taken.state

    def _told(self, key: Key, last: str, do: Callable[[], Taken | State | None]) -> Taken | State | None:
        try:
            return do()
        except LawBroken as broken:
            raise Breach(broken, [*self.story(key), last]) from broken

    def story(self, key: Key) -> list[str]:
        """The steps that lead to a state, first to last."""
        lines = []
        while (link := self._from[key]) is not None:
            key, text = link
            lines.append(text)
        return lines[::-1]

    def _let_go(self, key: Key, state: State) -> None:
        """Whoever wanted something wants nothing more: cancels and their clocks alone must settle every run."""
        told: list[str] = []
        for _ in range(LET_GO_STEPS):
            if quiet(state):
                return
            for step in _finishing(state, self.bounds):
                taken = _judged(state, step)
                if isinstance(taken, Taken) and taken.entries:
                    told.append(step.text)
                    state = taken.state
                    break
        raise Breach(LawBroken(L12, "cancelled, and still open"), [*self.story(key), *told])

    def _key(self, state: State) -> Key:
        """What tells this state from others, whatever its workers and runs are called."""
        there = msgspec.structs.replace(state.presence, version=0, gone_version=0)
        rest = msgspec.json.encode((there, state.grace_over))
        runs = [_plain(seen) for seen in state.runs]
        names = [name.encode() for name in self.bounds.worker_names]
        ways = (sorted(_renamed(run, names, others) for run in runs) for others in permutations(names))
        return hashlib.blake2b(b"|".join([rest, *min(ways)]), digest_size=16).digest()


def _finishing(state: State, bounds: Bounds) -> Iterator[Step]:
    return (step for step in steps(state, bounds) if step.text.startswith(FINISHING))


def _judged(state: State, step: Step) -> Taken | State | None:
    """What the step leads to, held against the laws."""
    taken = step.take(state)
    if not isinstance(taken, Taken) or not taken.entries or step.run is None:
        return taken
    before, after = state.runs[step.run], taken.state.runs[step.run]
    check_decision(before.standing, taken.entries, after.standing)
    check_ends(before, taken)
    _present_leader_loses_nothing(state, taken)
    _others_are_left_alone(state, taken, step.run)
    return taken


def _present_leader_loses_nothing(state: State, taken: Taken) -> None:
    absent = any(isinstance(fact, RunSettled) and fact.reason == "leader_gone" for _, fact in taken.entries)
    if absent and (state.presence.connections or not state.grace_over):
        raise LawBroken(L6, "settled by the absence of a leader that is there", [state.presence])


def _others_are_left_alone(state: State, taken: Taken, number: int) -> None:
    for index, (before, after) in enumerate(zip(state.runs, taken.state.runs, strict=True)):
        if index != number and before is not after:
            raise LawBroken(L3, f"a decision about r{number} changed r{index}", [before, after])


def _plain(seen: RunSeen) -> bytes:
    """A run as bytes, without its id, and without what only counts or cites."""
    standing = seen.standing
    run = standing.known
    cancel = None if run.cancel is None else msgspec.structs.replace(run.cancel, citation="")
    bare = msgspec.structs.replace(
        run, version=0, cancel=cancel, submission=msgspec.structs.replace(run.submission, run_id="")
    )
    parts = (
        bare,
        msgspec.structs.replace(standing.lease, version=0),
        msgspec.structs.replace(standing.effects, version=0),
        standing.mark,
        seen.granted,
        seen.partial_fence,
        plain_grounds(seen),
    )
    return msgspec.json.encode(parts)


def _renamed(run: bytes, names: list[bytes], others: tuple[bytes, ...]) -> bytes:
    for name in names:
        run = run.replace(b'"' + name, b'"\x00' + name[1:])
    for name, other in zip(names, others, strict=True):
        run = run.replace(b'"\x00' + name[1:], b'"' + other)
    return run


def kind_of(text: str) -> str:
    """What kind of step a line tells of, whoever took it."""
    return " ".join(word for word in text.split() if not any(letter.isdigit() for letter in word))


def explore_all(seconds: float, clock: Callable[[], float], told: Callable[[str], None]) -> int:
    """Walk every small world as deep as its share of the time allows; how many distinct states there were.

    Half of the time is the first world's. ``clock`` gives monotonic seconds; each world is told in one line.
    """
    states = 0
    for index, bounds in enumerate(WORLDS):
        until = clock() + seconds * (0.5 if index == 0 else 0.5 / (len(WORLDS) - 1))
        explored = Explorer(bounds).explore(DEPTH_MAX, lambda until=until: clock() < until)  # type: ignore[misc]
        told(explored.line())
        states += explored.states
    return states
