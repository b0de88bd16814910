"""Planted faults in decisions: one small wrong in what the domain decides, to prove that a law's check can fail.

Each function makes one decision wrong for as long as the patch lasts. None of them is subtle; what matters is that the
world notices, and names the law.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import commands.effects
import commands.holding
import domain.closing
import domain.handing
import domain.run
import domain.standing
from domain.lease import FenceBumped, Held, LeaseRevoked
from domain.run import Settled
from domain.run_facts import AttemptEnded, PartialSalvaged, RunSettled, VerdictRendered
from domain.settling import Settlement, settle_into
from domain.standing import Presented, Remains, RunDraft, Standing, end_attempt
from domain.values import EPOCH, Fact, Moment, to_json


def _on(patch: pytest.MonkeyPatch, road: str, wrong: Callable[[RunDraft, Any], Any]) -> None:
    """Put down what `wrong` makes of each fact instead of the fact, on the road `on_run` or `on_lease`."""
    right = getattr(RunDraft, road)
    patch.setattr(RunDraft, road, lambda draft, fact: right(draft, wrong(draft, fact)))


def keep_the_fence(patch: pytest.MonkeyPatch) -> None:
    """A settlement does not raise the fence."""
    _on(
        patch,
        "on_lease",
        lambda draft, fact: (
            msgspec.structs.replace(fact, fence=draft.standing.lease.fence) if isinstance(fact, LeaseRevoked) else fact
        ),
    )


def grant_a_fence_twice(patch: pytest.MonkeyPatch) -> None:
    """A grant keeps the fence of the one before it."""
    _on(
        patch,
        "on_lease",
        lambda draft, fact: (
            msgspec.structs.replace(fact, fence=max(1, fact.fence - 1)) if isinstance(fact, FenceBumped) else fact
        ),
    )


def accept_any_fence(patch: pytest.MonkeyPatch) -> None:
    """Whoever asks is taken for the holder."""

    def holder(standing: Standing, presented: Presented) -> Any:
        lease = standing.lease
        held = lease if isinstance(lease, Held) else None
        return held or Held(
            version=0, fence=presented.fence or 0, worker="ada", granted_at=EPOCH, ttl_s=5.0, slice_ends_at=None
        )

    for module in (domain.closing, domain.handing, commands.holding, commands.effects):
        patch.setattr(module, "holder", holder)


def reopen_the_settled(patch: pytest.MonkeyPatch) -> None:
    """The last holder of a run that has ended may still close it."""

    def late_holder(standing: Standing, presented: Presented) -> bool:
        if isinstance(standing.known.phase, Settled):
            return standing.lease.last is not None
        return right(standing, presented)

    right = domain.standing.late_holder
    patch.setattr(domain.closing, "late_holder", late_holder)


def settle_without_a_reason(patch: pytest.MonkeyPatch) -> None:
    """A settlement cites nothing."""
    _on(
        patch,
        "on_run",
        lambda draft, fact: msgspec.structs.replace(fact, cites=()) if isinstance(fact, RunSettled) else fact,
    )


def abort_at_the_first_silence(patch: pytest.MonkeyPatch) -> None:
    """An expiry aborts its run however many attempts are left."""

    def hand_on(draft: RunDraft, ending: Any, remains: Remains, now: Moment) -> None:
        ended = end_attempt(draft, ending, remains.work, now)
        settle_into(draft, Settlement(state="aborted", reason="silent", cites=(ended,)), remains, now)

    patch.setattr(domain.handing, "_hand_on", hand_on)


def forget_effects(patch: pytest.MonkeyPatch) -> None:
    """What an attempt had begun stays intended when it ends."""
    patch.setattr(RunDraft, "make_ambiguous", lambda draft: None)


def salvage_twice(patch: pytest.MonkeyPatch) -> None:
    """A verdict promotes a partial whether or not there is a result."""
    right = RunDraft.on_run

    def on_run(draft: RunDraft, fact: Fact) -> str:
        if isinstance(fact, VerdictRendered):
            right(draft, PartialSalvaged(fence=1, partial=to_json("half")))
        return right(draft, fact)

    patch.setattr(RunDraft, "on_run", on_run)


def count_every_end(patch: pytest.MonkeyPatch) -> None:
    """Parking costs an attempt."""

    def wrong(draft: RunDraft, fact: Fact) -> Fact:
        if isinstance(fact, AttemptEnded) and fact.outcome == "parked":
            return msgspec.structs.replace(fact, failed_attempts=fact.failed_attempts + 1)
        return fact

    _on(patch, "on_run", wrong)


def put_the_outcome_first(patch: pytest.MonkeyPatch) -> None:
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

    patch.setattr(RunDraft, "on_run", on_run)


def act_after_the_end(patch: pytest.MonkeyPatch) -> None:
    """Whoever acted for a run still does when the attempt has ended."""
    right = domain.run._ended

    def ended(run: Any, fact: Any) -> dict[str, object]:
        return right(run, fact) | {"acting": run.acting}

    patch.setattr(domain.run, "_ended", ended)
