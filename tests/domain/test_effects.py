"""The effect ledger: who may begin a side effect, what is returned instead, and what nobody may change any more."""

from collections.abc import Sequence
from typing import Literal

import pytest

from domain.decider import fold
from domain.effects import (
    EFFECTS_MAX,
    EMPTY,
    KEY_MAX_CHARS,
    ClaimEffect,
    EffectCompleted,
    EffectFact,
    EffectFailed,
    EffectFrozen,
    EffectIntended,
    EffectLedger,
    EffectNotAmbiguous,
    EffectReconciled,
    EffectUnknown,
    claim,
    evolve,
    finish,
    reconcile,
)
from domain.refusal import InvalidCommand, Refusal
from domain.values import NULL, digest
from tests.domain.facts import completed, effect_failed, intended, made_ambiguous, reconciled
from tests.domain.kit import noon, text

State = Literal["nothing", "intended", "completed", "failed", "ambiguous", "done", "not_done"]

LEDGERS: dict[State, list[EffectFact]] = {
    "nothing": [],
    "intended": [intended(command_id="c1")],
    "completed": [intended(command_id="c1"), completed()],
    "failed": [intended(command_id="c1"), effect_failed()],
    "ambiguous": [intended(command_id="c1"), made_ambiguous()],
    "done": [intended(command_id="c1"), made_ambiguous(), reconciled("done", outcome="sent")],
    "not_done": [intended(command_id="c1"), made_ambiguous(), reconciled("not_done")],
}


def ledger(*facts: EffectFact) -> EffectLedger:
    return fold(evolve, EMPTY, facts)


def wanting(key: str = "mail", payload: object = 1, fence: int = 1, command_id: str | None = None) -> ClaimEffect:
    return ClaimEffect(key=key, payload_digest=digest(text(payload)), fence=fence, command_id=command_id)


@pytest.mark.origin("B25", "B26", "B27", "R9")
@pytest.mark.parametrize(
    ("state", "answer", "outcome"),
    [
        ("nothing", "claimed", None),
        ("intended", "ambiguous", None),
        ("completed", "existing", "sent"),
        ("failed", "claimed", None),
        ("ambiguous", "ambiguous", None),
        ("done", "existing", "sent"),
        ("not_done", "claimed", None),
    ],
)
def test_a_claim_is_answered_by_what_is_known_of_the_effect(state: State, answer: str, outcome: object) -> None:
    given_answer, given_outcome, facts = claim(ledger(*LEDGERS[state]), wanting(fence=2, command_id="c2"), noon())

    assert (answer, text(outcome)) == (given_answer, given_outcome)
    assert (answer == "claimed") == bool(facts)


@pytest.mark.origin("B25")
@pytest.mark.parametrize("state", [state for state in LEDGERS if state != "nothing"])
def test_another_payload_under_the_same_key_is_a_mismatch_whatever_became_of_the_first(state: State) -> None:
    assert ("mismatch", text(None), []) == claim(ledger(*LEDGERS[state]), wanting(payload=2), noon())


@pytest.mark.origin("B25")
def test_payloads_are_the_same_however_their_keys_are_ordered() -> None:
    begun = ledger(intended(payload={"a": 1, "b": 2}), made_ambiguous(), reconciled("done"))

    assert "existing" == claim(begun, wanting(payload={"b": 2, "a": 1}), noon())[0]


def test_a_claim_records_who_began_it_and_when() -> None:
    _, _, facts = claim(EMPTY, wanting(fence=3, command_id="c9"), noon(7))

    assert [
        EffectIntended(key="mail", payload_digest=digest(text(1)), fence=3, command_id="c9", intended_at=noon(7))
    ] == facts


@pytest.mark.origin("B27")
def test_only_the_very_command_that_began_an_effect_may_begin_it_again() -> None:
    begun = ledger(*LEDGERS["intended"])

    assert ("claimed", text(None), []) == claim(begun, wanting(command_id="c1"), noon())
    assert "ambiguous" == claim(begun, wanting(command_id="c2"), noon())[0]
    assert "ambiguous" == claim(begun, wanting(command_id=None), noon())[0]
    assert "ambiguous" == claim(ledger(intended(command_id=None)), wanting(command_id=None), noon())[0]


Frozen = type[Refusal] | str | None
FINISH: dict[State, tuple[Frozen, Frozen]] = {
    "nothing": (EffectUnknown, EffectUnknown),
    "intended": ("completed", "failed"),
    "completed": (None, EffectFrozen),
    "failed": (EffectFrozen, None),
    "ambiguous": ("completed", "failed"),
    "done": (EffectFrozen, EffectFrozen),
    "not_done": (EffectFrozen, EffectFrozen),
}
"""What completing with "sent", and failing with "refused", come to in each state: a refusal, nothing, or the state."""


@pytest.mark.origin("B26")
@pytest.mark.parametrize("state", FINISH)
def test_an_effect_is_finished_by_the_fence_that_began_it_and_once(state: State) -> None:
    before = ledger(*LEDGERS[state])

    for told, outcome, expected in zip(("completed", "failed"), ("sent", "refused"), FINISH[state], strict=True):
        if isinstance(expected, type):
            with pytest.raises(expected):
                finish(before, "mail", 1, told, text(outcome))  # type: ignore[arg-type]
            continue
        facts = finish(before, "mail", 1, told, text(outcome))  # type: ignore[arg-type]
        after = fold(evolve, before, facts)
        assert (expected is None) == (facts == [])
        assert expected is None or expected == after.effects["mail"].state


@pytest.mark.origin("B26", "R9")
def test_an_ambiguous_effect_is_finished_by_the_late_holder_that_began_it_and_reconciled_by_everybody_else() -> None:
    unknown = ledger(*LEDGERS["ambiguous"])

    assert [EffectCompleted(key="mail", fence=1, outcome=text("sent"))] == finish(
        unknown, "mail", 1, "completed", text("sent")
    )
    with pytest.raises(EffectFrozen):
        finish(unknown, "mail", 2, "completed", text("sent"))


def test_a_frozen_outcome_is_repeated_with_the_same_value_and_refused_with_another() -> None:
    done = ledger(*LEDGERS["completed"])

    assert [] == finish(done, "mail", 1, "completed", text("sent"))
    with pytest.raises(EffectFrozen) as refused:
        finish(done, "mail", 1, "completed", text("sent twice"))
    assert ("mail", "completed", None) == (refused.value.key, refused.value.state, refused.value.resolution)


@pytest.mark.origin("B21", "B26")
@pytest.mark.parametrize("resolution", ["done", "not_done"])
def test_only_an_ambiguous_effect_is_reconciled(resolution: Literal["done", "not_done"]) -> None:
    unknown = ledger(*LEDGERS["ambiguous"])
    refused: Sequence[tuple[State, type[Refusal]]] = (
        ("nothing", EffectUnknown), ("intended", EffectNotAmbiguous), ("completed", EffectFrozen),
        ("failed", EffectFrozen),
    )  # fmt: skip

    assert [EffectReconciled(key="mail", resolution=resolution, outcome=text("seen"), by="lea")] == reconcile(
        unknown, "mail", resolution, text("seen"), "lea"
    )
    for state, refusal in refused:
        with pytest.raises(refusal):
            reconcile(ledger(*LEDGERS[state]), "mail", resolution, text("seen"), "lea")


def test_a_reconciliation_is_repeated_freely_and_never_turned_round() -> None:
    done = ledger(*LEDGERS["done"])

    assert [] == reconcile(done, "mail", "done", text("sent"), "ops")
    with pytest.raises(EffectFrozen):
        reconcile(done, "mail", "not_done", text(None), "ops")
    with pytest.raises(EffectFrozen):
        reconcile(done, "mail", "done", text("otherwise"), "ops")


@pytest.mark.origin("B25")
@pytest.mark.parametrize("state", ["failed", "not_done"])
def test_an_effect_that_is_known_not_to_have_happened_begins_anew_and_forgets_its_outcome(state: State) -> None:
    before = ledger(*LEDGERS[state])

    _, _, facts = claim(before, wanting(fence=2, command_id="c2"), noon())

    effect = fold(evolve, before, facts).effects["mail"]
    assert ("intended", 2, "c2", text(None), None) == (
        effect.state, effect.fence, effect.command_id, effect.outcome, effect.resolution,
    )  # fmt: skip


def test_a_failure_after_a_reconciliation_is_a_new_beginnings_own() -> None:
    again = ledger(*LEDGERS["not_done"], intended(fence=2))

    assert [EffectFailed(key="mail", fence=2, outcome=text("no"))] == finish(again, "mail", 2, "failed", text("no"))


def test_a_key_has_one_to_two_hundred_characters() -> None:
    for key in ("x", "x" * KEY_MAX_CHARS):
        assert "claimed" == claim(EMPTY, wanting(key), noon())[0]
    for key in ("", "x" * (KEY_MAX_CHARS + 1)):
        with pytest.raises(InvalidCommand) as refused:
            claim(EMPTY, wanting(key), noon())
        assert "key" == refused.value.field


def test_a_run_has_at_most_a_thousand_effects_and_the_known_ones_are_still_answered_then() -> None:
    almost = ledger(*(intended(f"e{n}") for n in range(EFFECTS_MAX - 1)))
    full = evolve(almost, intended("last"))

    assert "claimed" == claim(almost, wanting("last"), noon())[0]
    with pytest.raises(InvalidCommand):
        claim(full, wanting("one more"), noon())
    assert "ambiguous" == claim(full, wanting("last"), noon())[0]


def test_the_ledger_lists_what_is_unfinished_in_the_order_in_which_it_was_begun() -> None:
    begun = ledger(intended("b"), intended("a"), intended("c"), completed("a"))

    assert ("b", "c") == begun.intended
    assert 4 == begun.version


def test_an_effect_of_which_nobody_knows_has_no_outcome() -> None:
    assert NULL == ledger(intended(), made_ambiguous()).effects["mail"].outcome
