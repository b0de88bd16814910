"""Planted faults in the machinery around the decisions: journal, evidence, live index, read models, clocks.

Each function makes one part wrong for as long as the patch lasts.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

import commands.presence
import domain.claiming
import domain.presence
from domain.lease import LeaseMark
from domain.presence import absent
from domain.run_facts import PauseRequested
from domain.values import Moment
from evidence.presence import LeaderKey
from journal.commit import Done, Journal
from journal.errors import StaleRead
from journal.feed import Feed
from journal.mapper import Meta, Recorded
from journal.streams import Streams
from journal.topics import FOLDS, Fold
from projections.live.cards import Card
from projections.live.deadlines import Deadlines
from projections.live.fleet import Fleet
from projections.live.index import Live
from projections.live.leaders import LeaderCard
from projections.live.limits import Limits
from projections.live.ready import Ready
from projections.stored.projection import Folding


def leave_it_in_the_queue(patch: pytest.MonkeyPatch) -> None:
    """The live index goes on offering a run that is parked."""
    right = Live._change

    def change(live: Live, card: Any, fact: Any, at: Any) -> None:
        if type(fact).__name__ != "RunParked":
            right(live, card, fact, at)

    patch.setattr(Live, "_change", change)


def lose_rows(patch: pytest.MonkeyPatch) -> None:
    """A read model that follows the journal misses a fact now and then; folded anew, without metadata, it does not."""
    right = Folding.absorb

    def absorb(folding: Folding, facts: Any) -> None:
        right(folding, [one for one in facts if one[2].position % 7 or not isinstance(one[2].meta, Meta)])

    patch.setattr(Folding, "absorb", absorb)


def refuse_to_evolve(patch: pytest.MonkeyPatch) -> None:
    """A fact that was recorded cannot be read again."""
    right = FOLDS["run"]

    def evolve(state: Any, fact: Any) -> Any:
        if isinstance(fact, PauseRequested):
            message = "a pause? here?"
            raise ValueError(message)
        return right.evolve(state, fact)

    patch.setitem(FOLDS, "run", Fold(right.initial, evolve))


def ignore_limits(patch: pytest.MonkeyPatch) -> None:
    """No queue and no concurrency key is ever full."""
    patch.setattr(Limits, "queue_full", lambda limits, queue: False)
    patch.setattr(Limits, "key_full", lambda limits, key: False)


def forget_commands(patch: pytest.MonkeyPatch) -> None:
    """A command's id is not recorded with what it did."""
    right = Journal._prepare

    def prepare(journal: Journal, *arguments: Any) -> Any:
        pending = right(journal, *arguments)
        pending.command = None
        return pending

    patch.setattr(Journal, "_prepare", prepare)


def acknowledge_on_error(patch: pytest.MonkeyPatch) -> None:
    """An append that failed is answered as if it had not."""
    right = Journal._outcome

    def outcome(journal: Journal, pending: Any, decision: Any, context: Any, decode: Any) -> Any:
        if pending.error is None or isinstance(pending.error, StaleRead):
            return right(journal, pending, decision, context, decode)
        return Done(decision.answer, journal.position + len(pending.rows))

    patch.setattr(Journal, "_outcome", outcome)


def live_at_the_deadline(patch: pytest.MonkeyPatch) -> None:
    """A lease is still live at its very deadline."""
    patch.setattr(LeaseMark, "live", lambda mark, now: now.mono <= mark.deadline)


def judge_by_an_old_timer(patch: pytest.MonkeyPatch) -> None:
    """Whoever has no connection when a grace timer ends is gone, however short the absence is."""

    def absent_for(desk: Any, leader: LeaderKey, run_id: str, now: Moment) -> float | None:
        absent = commands.presence._absent_from(desk, leader)
        return None if absent is None else 1e9

    right = Deadlines.forget
    patch.setattr(commands.presence, "absent_for", absent_for)
    patch.setattr(domain.presence, "gone_for_at_least", lambda presence, absent_s, grace_s: absent(presence))
    patch.setattr(LeaderCard, "due", lambda card, run_id, grace_s: None if card.absent_from is None else 0.0)
    patch.setattr(
        Deadlines, "forget", lambda them, kind, subject: None if kind == "leader" else right(them, kind, subject)
    )


def leak_a_connection(patch: pytest.MonkeyPatch) -> None:
    """A connection that failed is never given back."""
    right = domain.presence.disconnect

    def disconnect(presence: Any, leader_id: str, connection_id: str, cause: Any, at: Any) -> Any:
        return [] if cause == "failed" else right(presence, leader_id, connection_id, cause, at)

    patch.setattr(commands.presence, "disconnect", disconnect)


def read_an_old_state(patch: pytest.MonkeyPatch) -> None:
    """The cache of folded streams misses what is recorded of leases."""
    right = Streams.apply

    def apply(streams: Streams, facts: Iterable[Recorded]) -> None:
        right(streams, [each for each in facts if not each.stream.startswith("lease-") or each.version == 1])

    patch.setattr(Streams, "apply", apply)


def act_on_an_old_timer(patch: pytest.MonkeyPatch) -> None:
    """A retry is due as soon as any timer of its run ends, whichever schedule that timer was set for."""
    right = domain.claiming.claim

    def claimed(standing: Any, grant: Any, work: Any, now: Moment) -> Any:
        due_at = getattr(standing.known.phase, "due_at", now.wall)
        return right(standing, grant, work, Moment(max(now.wall, due_at), now.mono))

    patch.setattr("commands.claims.claimed", claimed)
    patch.setattr(Ready, "_wait", lambda ready, card: ready._push(card))


def give_the_last_fact_again(patch: pytest.MonkeyPatch) -> None:
    """A follower is given the fact at its position, not only those after it."""
    right = Feed.after
    patch.setattr(Feed, "after", lambda feed, position, *rest: right(feed, max(0, position - 1), *rest))


def skip_at_a_batch_end(patch: pytest.MonkeyPatch) -> None:
    """A follower misses a fact when it reads several at once."""
    right = Feed.after

    def after(feed: Feed, position: int, *rest: Any) -> Sequence[Recorded]:
        found = right(feed, position, *rest)
        return [*found[:1], *found[2:]]

    patch.setattr(Feed, "after", after)


def charge_the_downtime(patch: pytest.MonkeyPatch) -> None:
    """After a restart an absence counts from before it."""
    right = domain.presence.reseed

    def reseed(presence: Any, leader_id: str, cause: Any, now: Any) -> Any:
        kept = cause == "boot" and presence.zero_since is not None
        return [] if kept else right(presence, leader_id, cause, now)

    patch.setattr(commands.presence, "reseed", reseed)


def keep_a_reminder(patch: pytest.MonkeyPatch) -> None:
    """A run that has ended leaves its card behind."""
    right = Live._end

    def end(live: Live, card: Card, at: Moment) -> None:
        right(live, card, at)
        live.remind("total", 1e9, (card.run_id,), "")

    patch.setattr(Live, "_end", end)


def overlook_labels(patch: pytest.MonkeyPatch) -> None:
    """Any worker is given any run, whatever labels it asks for."""
    patch.setattr("commands.claims._require_labels", lambda worker, standing: None)
    patch.setattr(Ready, "_matching", lambda ready, queue, labels: iter(list(ready._lanes.get(queue, {}).values())))


def probe_at_once(patch: pytest.MonkeyPatch) -> None:
    """A quarantined worker is tried with a run before its cool-down has passed."""
    right = Fleet.quarantine

    def quarantine(fleet: Fleet, worker: Any, fact: Any, at: Any) -> None:
        right(fleet, worker, fact, at)
        fleet.cooled.add(worker)

    patch.setattr(Fleet, "quarantine", quarantine)
