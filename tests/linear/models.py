"""What one run would say if it were asked by one client at a time: its lease, its partial and one effect.

The state is the fence in force, who holds the lease under it, whether its last holder may still act late, the last
partial, and how far the effect is known to have come. An answer must be what the state says: a grant raises the fence
by exactly one, a guarded write is accepted under the fence in force and under no other, a reader sees the state.

A lease that `may_expire` can end at any instant, for the clock is the service's own; it is taken to have ended as soon
as an answer shows it, and not before. What a lease held may have begun is ambiguous from then on.
"""

from dataclasses import dataclass, replace
from typing import Any

from tests.linear.checker import Operation

HOLDING = ("partial", "hand_back", "effect_claim", "effect_complete", "effect_fail")
NOT_STARTED, INTENDED, AMBIGUOUS, COMPLETED, FAILED = None, "intended", "ambiguous", "completed", "failed"


@dataclass(frozen=True, slots=True)
class State:
    """One run, as anybody may see it."""

    fence: int = 0
    owner: str | None = None
    late: bool = False
    partial: Any = None
    effect: str | None = NOT_STARTED
    effect_fence: int = 0
    outcome: Any = None


def ended(state: State, *, late: bool) -> State:
    """After the end of the attempt."""
    effect = AMBIGUOUS if state.effect == INTENDED else state.effect
    return replace(state, owner=None, late=late, effect=effect)


class RunModel:
    """A run whose lease may or may not run out meanwhile.

    Operations: `("claim",)`, `("get",)`, `("partial", fence, value)`, `("hand_back", fence)`,
    `("effect_claim", fence)`, `("effect_complete", fence, outcome)`, `("effect_fail", fence)`.
    What is told: `("ok", ...)` as below, or `("refused", code, fence in force)`.
    """

    def __init__(self, *, may_expire: bool) -> None:
        self.may_expire = may_expire

    @property
    def initial(self) -> State:
        """A run that nobody has claimed."""
        return State()

    def step(self, state: State, operation: Operation) -> State | None:
        """The state after the operation, or None where its answer contradicts the state."""
        kind = operation.asked[0]
        if kind == "claim":
            return self._claim(state, operation)
        if kind == "get":
            return state if operation.unknown else self._get(state, operation.told[1:])
        return self._hold(state, operation)

    def _claim(self, state: State, operation: Operation) -> State | None:
        granted = self._granted(state, operation.client)
        if operation.unknown:
            return granted or state
        if operation.told[0] == "refused":
            held = (state.owner is not None, state.owner, state.fence)
            return state if (True, *operation.told[2:]) == held and operation.told[1] == "lease_held" else None
        fence, partial, effect = operation.told[1:]
        return granted if granted == replace(granted or state, fence=fence, partial=partial, effect=effect) else None

    def _granted(self, state: State, client: str) -> State | None:
        if state.owner is not None and not self.may_expire:
            return None
        return replace(ended(state, late=False), fence=state.fence + 1, owner=client)

    def _get(self, state: State, shown: tuple[Any, ...]) -> State | None:
        if shown == _shown(state):
            return state
        expired = ended(state, late=True)
        return expired if self._has_expired(state) and shown == _shown(expired) else None

    def _has_expired(self, state: State) -> bool:
        return self.may_expire and state.owner is not None

    def _hold(self, state: State, operation: Operation) -> State | None:
        presented = operation.asked[1]
        holds = state.owner == operation.client and state.fence == presented
        finishing = operation.asked[0] in ("effect_complete", "effect_fail")
        late = state.late and state.fence == presented and finishing
        if operation.unknown:
            found = _does(state, operation) if holds or late else None
            return state if found is None else found[0]
        if operation.told[0] == "ok":
            found = _does(state, operation) if holds or late else None
            return found[0] if found is not None and found[1] == operation.told[1:] else None
        return self._refused(state, operation, holds=holds, late=late)

    def _refused(self, state: State, operation: Operation, *, holds: bool, late: bool) -> State | None:
        code, current = operation.told[1:]
        if code != "fence_lost":
            # The effect is not in a state in which this may be said about it.
            return state if (holds or late) and _does(state, operation) is None else None
        if current != state.fence:
            return None
        if not (holds or late):
            return state
        return ended(state, late=True) if holds and self._has_expired(state) else None


def _shown(state: State) -> tuple[Any, ...]:
    return state.fence, state.owner, state.partial


def _does(state: State, operation: Operation) -> tuple[State, tuple[Any, ...]] | None:
    """What a holder's write leads to and is answered; None when the effect does not allow it."""
    kind, fence, *values = operation.asked
    if kind == "partial":
        return replace(state, partial=values[0]), ()
    if kind == "hand_back":
        return ended(state, late=False), ()
    if kind == "effect_claim":
        return _claim_effect(state, fence)
    return _finish_effect(state, fence, COMPLETED if kind == "effect_complete" else FAILED, values[0])


def _claim_effect(state: State, fence: int) -> tuple[State, tuple[Any, ...]]:
    if state.effect == COMPLETED:
        return state, ("existing", state.outcome)
    if state.effect in (INTENDED, AMBIGUOUS):
        return state, ("ambiguous", None)
    return replace(state, effect=INTENDED, effect_fence=fence, outcome=None), ("claimed", None)


def _finish_effect(state: State, fence: int, how: str, outcome: Any) -> tuple[State, tuple[Any, ...]] | None:
    if (state.effect, state.outcome) == (how, outcome):
        return state, ()
    if state.effect == INTENDED or (state.effect == AMBIGUOUS and state.effect_fence == fence):
        return replace(state, effect=how, outcome=outcome), ()
    return None
