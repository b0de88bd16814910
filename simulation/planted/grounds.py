"""Planted faults around what runs stand on: bodies, turns, ownership, and what is kept of them.

Each function makes one part wrong for as long as the patch lasts.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import domain.observing
import domain.turns_state
import domain.workspace
from domain.grounds import End, lose_into
from domain.run_facts import RunSettled
from domain.standing import Remains, RunDraft
from domain.turn_facts import TurnFailed
from domain.values import Fact
from domain.workspace_facts import HarnessRestarted, WorkspaceAttached, WorkspaceLost
from projections.live.grounds import Grounds
from projections.live.kept import Kept
from projections.stored.projection import Folding
from simulation.workers import Worker


def take_unknown_for_lost(patch: pytest.MonkeyPatch) -> None:
    """A watch that broke off is a loss."""
    right = domain.observing._view

    def view(draft: RunDraft, workspace: Any, seen: Any, now: Any) -> None:
        if seen.dropped and workspace.phase == "running":
            lose_into(draft, workspace, End(reason="NodeLost"), Remains(), now)
            return
        right(draft, workspace, seen, now)

    patch.setattr(domain.observing, "_view", view)


def go_by_the_name(patch: pytest.MonkeyPatch) -> None:
    """Whatever bears the name of a body is taken for it."""
    patch.setattr(domain.observing, "_ours", lambda known, seen: True)


def lose_it_twice(patch: pytest.MonkeyPatch) -> None:
    """A workspace that was lost goes on running, as far as the service is concerned."""
    right = domain.workspace._failed

    def failed(workspace: Any, fact: Any) -> dict[str, object]:
        changes = right(workspace, fact)
        return changes | {"phase": "running"} if isinstance(fact, WorkspaceLost) else changes

    patch.setattr(domain.workspace, "_failed", failed)


def settle_before_the_fact(patch: pytest.MonkeyPatch) -> None:
    """A run is settled by a loss that is put down after it."""
    right = RunDraft.add
    held_back: list[tuple[RunDraft, str, Fact]] = []

    def add(draft: RunDraft, stream: str, fact: Fact) -> str:
        if isinstance(fact, WorkspaceLost) and not fact.pending:
            held_back.append((draft, stream, fact))
            return f"{stream}@{draft.versions[stream] + 1}"
        cited = right(draft, stream, fact)
        while isinstance(fact, RunSettled) and held_back:
            decided_on, of, lost = held_back.pop()
            if decided_on is draft:
                right(draft, of, lost)
        return cited

    patch.setattr(RunDraft, "add", add)


def forget_an_assertion(patch: pytest.MonkeyPatch) -> None:
    """That a workspace is needed is answered, and not noted."""
    right = Grounds.assert_now

    def assert_now(grounds: Grounds, card: Any, now: Any) -> None:
        if grounds._marks.last_asserted(card.workspace_id) is None:
            right(grounds, card, now)

    patch.setattr(Grounds, "assert_now", assert_now)


def fail_a_turn_twice(patch: pytest.MonkeyPatch) -> None:
    """A turn that failed is still under way."""
    right = domain.turns_state.turned

    def turned(turns: Any, fact: Any) -> Any:
        after = right(turns, fact)
        if isinstance(fact, TurnFailed) and fact.turn in turns.open:
            return msgspec.structs.replace(after, open=turns.open)
        return after

    patch.setattr("domain.run.turned", turned)


def charge_the_blind(patch: pytest.MonkeyPatch) -> None:
    """A budget runs on while nobody can see the body, and is half of what it should be."""
    patch.setattr(Grounds, "provision_due", _half)
    right = Grounds._provision

    def provision(grounds: Grounds, card: Any, mono: float) -> None:
        right(grounds, card, mono)
        grounds._remind("provision", mono + grounds._graces.provisioning_s / 2, card)

    patch.setattr(Grounds, "_provision", provision)


def _half(grounds: Grounds, workspace_id: str) -> float | None:
    card = grounds.cards.get(workspace_id)
    if card is None or card.provisioning_from is None:
        return None
    return card.provisioning_from + grounds._graces.provisioning_s / 2


def keep_an_old_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint leaves out what was attached to, so that a start from it knows less than was so."""
    right = Kept.fold

    def fold(kept: Kept, facts: Sequence[Any]) -> None:
        every = list(facts)
        right(kept, [each for each in every if not isinstance(each.fact, WorkspaceAttached)])
        kept.position = every[-1].position if every else kept.position

    patch.setattr(Kept, "fold", fold)


def count_a_batch_twice(patch: pytest.MonkeyPatch) -> None:
    """A read model that was interrupted reads a batch again, since it does not keep up to where it had come."""
    right = Folding.absorb
    times = iter(range(1_000_000))

    def absorb(folding: Folding, facts: Any) -> None:
        right(folding, facts)
        if next(times) % 50 == 49:
            right(folding, facts)

    patch.setattr(Folding, "absorb", absorb)


def let_go_before_the_end(patch: pytest.MonkeyPatch) -> None:
    """A worker gives its lease up while what it started is still running."""
    patch.setattr(Worker, "stop_work", lambda worker, run_id, fence: None)


def miss_whoever_came_later(patch: pytest.MonkeyPatch) -> None:
    """A full list that comes late is taken for what is there now."""
    patch.setattr("commands.scopes._was_there", lambda card, listed_from, as_of: card.phase == "running")


def take_another_body(patch: pytest.MonkeyPatch) -> None:
    """What starts anew inside of a body is taken for another body."""
    right = domain.workspace._changes

    def changed(workspace: Any, fact: Any) -> dict[str, object]:
        changes = right(workspace, fact)
        return changes | {"identity": f"{workspace.identity}'"} if isinstance(fact, HarnessRestarted) else changes

    patch.setattr(domain.workspace, "_changes", changed)
