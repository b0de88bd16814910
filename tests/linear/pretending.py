"""A pretended service that answers as a right one does, or wrong in one chosen way, and crowds that ask it by chance.

It exists to try the checker: histories of the right one must be explained, and histories of each wrong one must not.
Every operation takes effect at one instant between its call and its answer; some are never answered, and of those some
never happened.
"""

import itertools
import random
from typing import Any

from tests.linear.checker import Operation
from tests.linear.models import INTENDED, RunModel, State, ended

CLIENTS = ("ada", "bob", "cy")
EFFECT_KINDS = ("effect_claim", "effect_complete", "effect_fail")
FAULTS = (
    "a fence is granted twice",
    "a fence is skipped",
    "a live lease is granted away",
    "an old fence is accepted",
    "a guarded write is acknowledged and lost",
    "a reader is shown the past",
    "a hand-back is forgotten",
    "an effect is claimed twice",
    "an effect survives its attempt",
    "a refusal names another fence",
)


class Pretended:
    """One run, asked by one client at a time."""

    def __init__(self, chance: random.Random, fault: str | None = None, *, may_expire: bool = False) -> None:
        self.chance = chance
        self.fault = fault
        self.may_expire = may_expire
        self.state = State()
        self.past = [self.state]

    def answer(self, client: str, asked: tuple[Any, ...]) -> tuple[Any, ...]:
        """What is told; the state moves."""
        if self.may_expire and self.state.owner is not None and self.chance.random() < 0.05:
            self._move(ended(self.state, late=True))
        kind = asked[0]
        if kind == "claim":
            return self._claim(client)
        if kind == "get":
            seen = self.chance.choice(self.past) if self._wrong("a reader is shown the past") else self.state
            return ("ok", seen.fence, seen.owner, seen.partial)
        return self._hold(client, asked)

    def _wrong(self, fault: str) -> bool:
        return self.fault == fault and self.chance.random() < 0.3

    def _move(self, state: State) -> None:
        self.state = state
        self.past.append(state)

    def _claim(self, client: str) -> tuple[Any, ...]:
        state = self.state
        if state.owner is not None and not self._wrong("a live lease is granted away"):
            return ("refused", "lease_held", state.owner, state.fence)
        step = 0 if state.fence and self._wrong("a fence is granted twice") else 1
        step += self._wrong("a fence is skipped")
        forgotten = state.effect == INTENDED and self.fault == "an effect survives its attempt"
        after = state if forgotten else ended(state, late=False)
        self._move(_with(after, fence=state.fence + step, owner=client, late=False))
        return ("ok", self.state.fence, self.state.partial, self.state.effect)

    def _hold(self, client: str, asked: tuple[Any, ...]) -> tuple[Any, ...]:
        state, fence = self.state, asked[1]
        held = (state.owner, state.fence) == (client, fence) or self._wrong("an old fence is accepted")
        if not held:
            if state.late and state.fence == fence and asked[0] in EFFECT_KINDS[1:]:
                return self._by_the_model(client, asked)
            other = self._wrong("a refusal names another fence")
            return ("refused", "fence_lost", state.fence + other)
        lost = (asked[0] == "partial" and self._wrong("a guarded write is acknowledged and lost")) or (
            asked[0] == "hand_back" and self._wrong("a hand-back is forgotten")
        )
        if lost:
            return ("ok",)
        if asked[0] == "effect_claim" and self._wrong("an effect is claimed twice"):
            self._move(_with(state, effect=INTENDED, effect_fence=fence, outcome=None))
            return ("ok", "claimed", None)
        if self.fault == "an effect survives its attempt" and asked[0] == "hand_back":
            self._move(_with(state, owner=None))
            return ("ok",)
        return self._by_the_model(client, asked)

    def _by_the_model(self, client: str, asked: tuple[Any, ...]) -> tuple[Any, ...]:
        state = self.state
        for told in (("ok",), ("ok", "claimed", None), ("ok", "ambiguous", None), ("ok", "existing", state.outcome)):
            after = RunModel(may_expire=False).step(state, Operation(client, asked, 0, 1, told))
            if after is not None:
                self._move(after)
                return told
        if (state.owner, state.fence) != (client, asked[1]) and not state.late:
            self._move(_with(state, partial=asked[-1]) if asked[0] == "partial" else state)
            return ("ok",)
        return ("refused", "effect_frozen", None)


def _with(state: State, **changes: Any) -> State:
    return State(**{**{name: getattr(state, name) for name in State.__slots__}, **changes})


def wishes(chance: random.Random, fence: int, number: int) -> tuple[Any, ...]:
    """What a client that was last granted this fence may ask next; completing the effect is rare: it ends its story."""
    if not fence:
        return chance.choice((("get",), ("claim",)))
    if chance.random() < 0.003:
        return ("effect_complete", fence, number)
    kinds: tuple[tuple[Any, ...], ...] = (
        ("get",),
        ("claim",),
        ("claim",),
        ("partial", fence, number),
        ("effect_claim", fence),
        ("effect_claim", fence),
        ("effect_fail", fence, number),
        ("hand_back", fence),
    )
    return chance.choice(kinds)


def history(service: Pretended, chance: random.Random, operations: int, *, unanswered: float = 0.0) -> list[Operation]:
    """What a few clients that ask at once were told, of this many operations."""
    instants, numbers = itertools.count(), itertools.count(1)
    fences = dict.fromkeys(CLIENTS, 0)
    asked: dict[str, list[Any]] = {}
    found: list[Operation] = []
    while len(found) < operations:
        client = chance.choice(CLIENTS)
        doing = asked.get(client)
        if doing is None:
            asked[client] = [wishes(chance, fences[client], next(numbers)), next(instants), None]
        elif doing[2] is None:
            lost = chance.random() < unanswered
            if not lost or chance.random() < 0.5:
                doing[2] = service.answer(client, doing[0])
            if lost:
                found.append(Operation(client, doing[0], doing[1]))
                del asked[client]
        else:
            if doing[0] == ("claim",) and doing[2][0] == "ok":
                fences[client] = doing[2][1]
            found.append(Operation(client, doing[0], doing[1], next(instants), doing[2]))
            del asked[client]
    found += [Operation(client, wanted, called) for client, (wanted, called, _) in asked.items()]
    return found
