"""The effect ledger: what a run has done, or may have done, outside itself.

A worker *claims* an effect under its key before it starts it. The ledger, not the lease, stops a resumed run from
repeating what its predecessor began:

    intended -> completed | failed | ambiguous        ambiguous -> reconciled(done | not_done) | completed | failed

Every append that ends an attempt or settles the run makes each *intended* effect *ambiguous*: somebody started it and
nobody knows. Only ``failed`` and ``reconciled(not_done)`` may be claimed again; every other outcome is frozen and is
given back instead of repeated. Payloads are compared by canonical digest, so key order does not matter.

Completing or failing an ambiguous effect is for the late holder whose fence began it; anybody else *reconciles*.
"""

from datetime import datetime
from typing import Literal, assert_never

import msgspec

from domain.refusal import InvalidCommand, Refusal
from domain.values import NULL, Fact, Json, Value

EFFECTS_MAX = 1_000
"""Effects of one run; a run that needs more is several runs."""
KEY_MAX_CHARS = 200

EffectState = Literal["intended", "completed", "failed", "ambiguous", "reconciled"]
Resolution = Literal["done", "not_done"]
Answer = Literal["claimed", "existing", "mismatch", "ambiguous"]


class Effect(Value, frozen=True, kw_only=True):
    """One side effect: how far it is known to have come."""

    state: EffectState
    payload_digest: str
    fence: int
    command_id: str | None
    outcome: Json = NULL
    resolution: Resolution | None = None

    @property
    def may_be_claimed(self) -> bool:
        """Whether it is known not to have happened."""
        return self.state == "failed" or self.resolution == "not_done"


class EffectLedger(Value, frozen=True, kw_only=True):
    """All effects of one run, by key, in the order in which they were first claimed."""

    version: int = 0
    effects: dict[str, Effect] = msgspec.field(default_factory=dict)

    @property
    def intended(self) -> tuple[str, ...]:
        """Keys that were started and not finished."""
        return tuple(key for key, effect in self.effects.items() if effect.state == "intended")


EMPTY = EffectLedger()


class EffectIntended(Fact, frozen=True, kw_only=True):
    """A worker is about to do this."""

    key: str
    payload_digest: str
    fence: int
    command_id: str | None
    intended_at: datetime


class EffectCompleted(Fact, frozen=True, kw_only=True):
    """It happened."""

    key: str
    fence: int
    outcome: Json


class EffectFailed(Fact, frozen=True, kw_only=True):
    """It did not happen; it may be claimed again."""

    key: str
    fence: int
    outcome: Json


class EffectsMadeAmbiguous(Fact, frozen=True, kw_only=True):
    """The attempt that started these ended, and nobody knows whether they happened."""

    keys: tuple[str, ...]
    fence: int


class EffectReconciled(Fact, frozen=True, kw_only=True):
    """Somebody found out."""

    key: str
    resolution: Resolution
    outcome: Json
    by: str


EffectFact = EffectIntended | EffectCompleted | EffectFailed | EffectsMadeAmbiguous | EffectReconciled


class EffectUnknown(Refusal):
    """The run has no effect under this key."""

    code = "effect_unknown"

    def __init__(self, key: str) -> None:
        super().__init__(f"no effect of this run has the key {key!r}", key=key)


class EffectFrozen(Refusal):
    """The effect's outcome is settled and differs from the one presented."""

    code = "effect_frozen"

    def __init__(self, *, key: str, state: EffectState, resolution: Resolution | None) -> None:
        super().__init__(
            f"effect {key!r} is {resolution or state} and does not change", key=key, state=state, resolution=resolution
        )


class EffectNotAmbiguous(Refusal):
    """Only an ambiguous effect is reconciled; its holder completes or fails it."""

    code = "effect_not_ambiguous"

    def __init__(self, *, key: str, state: EffectState) -> None:
        super().__init__(f"effect {key!r} is {state}, and only an ambiguous effect is reconciled", key=key, state=state)


class ClaimEffect(Value, frozen=True, kw_only=True):
    """A worker wants to do this once."""

    key: str
    payload_digest: str
    fence: int
    command_id: str | None = None


def evolve(ledger: EffectLedger, fact: EffectFact) -> EffectLedger:
    """The ledger after one more fact."""
    effects = dict(ledger.effects)
    match fact:
        case EffectIntended():
            effects[fact.key] = Effect(
                state="intended", payload_digest=fact.payload_digest, fence=fact.fence, command_id=fact.command_id
            )
        case EffectCompleted():
            effects[fact.key] = _moved(effects, fact.key, "completed", fact.outcome)
        case EffectFailed():
            effects[fact.key] = _moved(effects, fact.key, "failed", fact.outcome)
        case EffectsMadeAmbiguous():
            for key in fact.keys:
                effects[key] = _moved(effects, key, "ambiguous", NULL)
        case EffectReconciled():
            effects[fact.key] = _moved(effects, fact.key, "reconciled", fact.outcome, fact.resolution)
        case _:
            assert_never(fact)
    return EffectLedger(version=ledger.version + 1, effects=effects)


def _moved(
    effects: dict[str, Effect], key: str, state: EffectState, outcome: Json, resolution: Resolution | None = None
) -> Effect:
    before = effects.get(key)
    return Effect(
        state=state,
        payload_digest=before.payload_digest if before else "",
        fence=before.fence if before else 0,
        command_id=before.command_id if before else None,
        outcome=outcome,
        resolution=resolution,
    )


def claim(ledger: EffectLedger, command: ClaimEffect, now: datetime) -> tuple[Answer, Json, list[EffectFact]]:
    """What the worker may do, the outcome to use instead where there is one, and the facts that follow."""
    _check_key(command.key)
    effect = ledger.effects.get(command.key)
    if effect is None and len(ledger.effects) >= EFFECTS_MAX:
        raise InvalidCommand(field="effects", value=len(ledger.effects) + 1, limit=f"at most {EFFECTS_MAX} in one run")
    if effect is not None and effect.payload_digest != command.payload_digest:
        return "mismatch", NULL, []
    if effect is None or effect.may_be_claimed:
        intended = EffectIntended(
            key=command.key,
            payload_digest=command.payload_digest,
            fence=command.fence,
            command_id=command.command_id,
            intended_at=now,
        )
        return "claimed", NULL, [intended]
    if effect.state == "intended" and command.command_id is not None and effect.command_id == command.command_id:
        return "claimed", NULL, []
    if effect.state in ("intended", "ambiguous"):
        return "ambiguous", NULL, []
    return "existing", effect.outcome, []


def _check_key(key: str) -> None:
    if not key or len(key) > KEY_MAX_CHARS:
        raise InvalidCommand(field="key", value=key[: KEY_MAX_CHARS + 1], limit=f"1 to {KEY_MAX_CHARS} characters")


def finish(
    ledger: EffectLedger, key: str, fence: int, state: Literal["completed", "failed"], outcome: Json
) -> list[EffectFact]:
    """Facts that follow when the worker that began an effect says how it ended.

    An ambiguous effect is finished only under the fence that began it: the late holder knows, others reconcile.
    """
    effect = ledger.effects.get(key)
    if effect is None:
        raise EffectUnknown(key)
    if effect.state == state and effect.outcome == outcome:
        return []
    open_to_holder = effect.state == "intended" or (effect.state == "ambiguous" and effect.fence == fence)
    if not open_to_holder:
        raise EffectFrozen(key=key, state=effect.state, resolution=effect.resolution)
    if state == "completed":
        return [EffectCompleted(key=key, fence=fence, outcome=outcome)]
    return [EffectFailed(key=key, fence=fence, outcome=outcome)]


def reconcile(ledger: EffectLedger, key: str, resolution: Resolution, outcome: Json, by: str) -> list[EffectFact]:
    """Facts that follow when somebody found out whether an ambiguous effect happened."""
    effect = ledger.effects.get(key)
    if effect is None:
        raise EffectUnknown(key)
    if effect.state == "reconciled" and effect.resolution == resolution and effect.outcome == outcome:
        return []
    if effect.state == "intended":
        raise EffectNotAmbiguous(key=key, state=effect.state)
    if effect.state != "ambiguous":
        raise EffectFrozen(key=key, state=effect.state, resolution=effect.resolution)
    return [EffectReconciled(key=key, resolution=resolution, outcome=outcome, by=by)]
