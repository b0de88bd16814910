"""Planted faults: one small wrong in the code for each law, to prove that the law's check can fail.

Each function makes one decision, fold or limit wrong for the duration of a test. None of them is subtle; what matters
is that the world notices, and names the law.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import commands.effects
import commands.holding
import domain.closing
import domain.handing
import domain.standing
from domain.lease import FenceBumped, Held, LeaseRevoked
from domain.run import Settled
from domain.run_facts import AttemptEnded, PartialSalvaged, PauseRequested, RunSettled, VerdictRendered
from domain.settling import Settlement, settle_into
from domain.standing import Presented, Remains, RunDraft, Standing, end_attempt
from domain.values import EPOCH, Fact, Moment, to_json
from journal.commit import Journal
from journal.mapper import Meta
from journal.topics import FOLDS, Fold
from projections.live.index import Live
from projections.live.limits import Limits
from projections.stored.projection import Folding

Plant = Callable[[pytest.MonkeyPatch], None]


def _on(monkeypatch: pytest.MonkeyPatch, road: str, wrong: Callable[[RunDraft, Any], Any]) -> None:
    """Put down what `wrong` makes of each fact instead of the fact, on the road `on_run` or `on_lease`."""
    right = getattr(RunDraft, road)
    monkeypatch.setattr(RunDraft, road, lambda draft, fact: right(draft, wrong(draft, fact)))


def keep_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settlement does not raise the fence."""
    _on(
        monkeypatch,
        "on_lease",
        lambda draft, fact: (
            msgspec.structs.replace(fact, fence=draft.standing.lease.fence) if isinstance(fact, LeaseRevoked) else fact
        ),
    )


def grant_a_fence_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grant keeps the fence of the one before it."""
    _on(
        monkeypatch,
        "on_lease",
        lambda draft, fact: (
            msgspec.structs.replace(fact, fence=max(1, fact.fence - 1)) if isinstance(fact, FenceBumped) else fact
        ),
    )


def accept_any_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is taken for the holder."""

    def holder(standing: Standing, presented: Presented) -> Any:
        lease = standing.lease
        held = lease if isinstance(lease, Held) else None
        return held or Held(
            version=0, fence=presented.fence or 0, worker="ada", granted_at=EPOCH, ttl_s=5.0, slice_ends_at=None
        )

    for module in (domain.closing, domain.handing, commands.holding, commands.effects):
        monkeypatch.setattr(module, "holder", holder)


def reopen_the_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last holder of a run that has ended may still close it."""

    def late_holder(standing: Standing, presented: Presented) -> bool:
        if isinstance(standing.known.phase, Settled):
            return standing.lease.last is not None
        return right(standing, presented)

    right = domain.standing.late_holder
    monkeypatch.setattr(domain.closing, "late_holder", late_holder)


def settle_without_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settlement cites nothing."""
    _on(
        monkeypatch,
        "on_run",
        lambda draft, fact: msgspec.structs.replace(fact, cites=()) if isinstance(fact, RunSettled) else fact,
    )


def abort_at_the_first_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expiry aborts its run however many attempts are left."""

    def hand_on(draft: RunDraft, ending: Any, remains: Remains, now: Moment) -> None:
        ended = end_attempt(draft, ending, remains.work, now)
        settle_into(draft, Settlement(state="aborted", reason="silent", cites=(ended,)), remains, now)

    monkeypatch.setattr(domain.handing, "_hand_on", hand_on)


def forget_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an attempt had begun stays intended when it ends."""
    monkeypatch.setattr(RunDraft, "make_ambiguous", lambda draft: None)


def leave_it_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live index goes on offering a run that is parked."""
    right = Live._change

    def change(live: Live, card: Any, fact: Any, at: Any) -> None:
        if type(fact).__name__ != "RunParked":
            right(live, card, fact, at)

    monkeypatch.setattr(Live, "_change", change)


def lose_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read model that follows the journal misses a fact now and then; folded anew, without metadata, it does not."""
    right = Folding.absorb

    def absorb(folding: Folding, facts: Any) -> None:
        right(folding, [one for one in facts if one[2].position % 7 or not isinstance(one[2].meta, Meta)])

    monkeypatch.setattr(Folding, "absorb", absorb)


def refuse_to_evolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that was recorded cannot be read again."""
    right = FOLDS["run"]

    def evolve(state: Any, fact: Any) -> Any:
        if isinstance(fact, PauseRequested):
            message = "a pause? here?"
            raise ValueError(message)
        return right.evolve(state, fact)

    monkeypatch.setitem(FOLDS, "run", Fold(right.initial, evolve))


def ignore_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No queue and no concurrency key is ever full."""
    monkeypatch.setattr(Limits, "queue_full", lambda limits, queue: False)
    monkeypatch.setattr(Limits, "key_full", lambda limits, key: False)


def salvage_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict promotes a partial whether or not there is a result."""
    right = RunDraft.on_run

    def on_run(draft: RunDraft, fact: Fact) -> str:
        if isinstance(fact, VerdictRendered):
            right(draft, PartialSalvaged(fence=1, partial=to_json("half")))
        return right(draft, fact)

    monkeypatch.setattr(RunDraft, "on_run", on_run)


def forget_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's id is not recorded with what it did."""
    right = Journal._prepare

    def prepare(journal: Journal, *arguments: Any) -> Any:
        pending = right(journal, *arguments)
        pending.command = None
        return pending

    monkeypatch.setattr(Journal, "_prepare", prepare)


def count_every_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parking costs an attempt."""

    def wrong(draft: RunDraft, fact: Fact) -> Fact:
        if isinstance(fact, AttemptEnded) and fact.outcome == "parked":
            return msgspec.structs.replace(fact, failed_attempts=fact.failed_attempts + 1)
        return fact

    _on(monkeypatch, "on_run", wrong)


def put_the_outcome_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial is promoted after the settlement that it belongs to."""
    right = RunDraft.on_run
    held_back: list[Fact] = []

    def on_run(draft: RunDraft, fact: Fact) -> str:
        if isinstance(fact, PartialSalvaged):
            held_back.append(fact)
            return ""
        cited = right(draft, fact)
        while isinstance(fact, RunSettled) and held_back:
            right(draft, held_back.pop())
        return cited

    monkeypatch.setattr(RunDraft, "on_run", on_run)
