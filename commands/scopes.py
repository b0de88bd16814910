"""Observing a whole scope: batches of one observer, about as many workspaces as it watches.

An observer proves itself by the fence of a run of its own: everything that it tells is guarded by that lease, so of two
observers the one that was replaced is refused (``fence_lost``). A scope has one observer at a time, whatever the key:
while the lease of the one that reported last is live, a batch for another run is refused (``scope_observed``), since
two who list the same scope by turns would each miss what the other saw. One observation that cannot be taken costs the
others nothing: it is counted, and named in the answer.

With ``synced`` the batch is all there is. Attached workspaces of the scope that it does not name are gone, and those
that it saw are not unknown any more. A scope larger than one batch is listed in parts, numbered from 0, which count
together once the last one came; nothing is missing in half a list. Whoever was attached to after the list was asked for
may be missing in it, and is not gone. How long ago that was (``listed_s_ago``) goes wrong when the batch itself comes
late or twice; which position of the journal the observer knew before it asked (``as_of``) does not.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Literal

import msgspec

from commands.desk import Caller, Desk, NotAllowed
from commands.observing import tell
from commands.workspaces import on_workspace
from domain.lease import FenceLost, FenceRequired, Held
from domain.observing import ALIVE, Observation
from domain.placing import expect
from domain.refusal import InvalidCommand, Refusal, RunUnknown
from domain.run_facts import RunSubmitted
from domain.standing import RunDraft, Standing, holder, lease_stream
from domain.submission import check_id
from domain.values import Moment, Value
from domain.workspace_refusals import SCOPE_MAX_CHARS, WorkspaceOver, WorkspaceUnknown, check_text
from evidence.grounds import PARTS_MAX, Listed, ScopeKey
from journal.commit import Done
from projections.live.grounds import OBSERVERS_QUEUE, GroundCard

OBSERVATIONS_MAX = 1_000
"""Observations in one batch."""
SIDE_BY_SIDE = 64
"""Workspaces that are decided on at the same time."""

Step = Literal["told", "restored", "absent", "expected"]
"""What a workspace is decided on for, in one batch."""

_PRESENT, _SYNCED, _GONE = Observation(kind="present"), Observation(kind="synced"), Observation(kind="gone")


class Part(Value, frozen=True, kw_only=True):
    """Which part of which list a batch is."""

    sync_id: str
    index: int
    last: bool


class Batch(Value, frozen=True, kw_only=True):
    """What an observer saw of a scope."""

    observer_id: str
    run_id: str
    fence: int | None
    scope: str
    seen: tuple[tuple[str, Observation], ...] = ()
    synced: bool = False
    part: Part | None = None
    listed_s_ago: float = 0.0
    as_of: int | None = None
    """The journal's position that the observer knew before it asked for the list."""


class SyncBroken(Refusal):
    """This part does not follow the one before it: the list begins anew, with part 0."""

    code = "sync_broken"

    def __init__(self, *, scope: str, sync_id: str, index: int, expected: int) -> None:
        super().__init__(
            f"part {index} of list {sync_id!r} of scope {scope!r} was sent, and part {expected} is expected",
            scope=scope, sync_id=sync_id, index=index, expected=expected,
        )  # fmt: skip


class ScopeObserved(Refusal):
    """Another observer's lease is live; the scope is free when that ends, in ``retry_after_s`` unless it is renewed."""

    code = "scope_observed"

    def __init__(self, *, scope: str, observer: str, holder: str, retry_after_s: float) -> None:
        super().__init__(
            f"scope {scope!r} is observed by {holder!r} as the holder of run {observer}, whose lease lasts another "
            f"{retry_after_s:g} s unless it is renewed",
            scope=scope, observer_run_id=observer, holder=holder, retry_after_s=retry_after_s,
        )  # fmt: skip


class Tally(msgspec.Struct):
    """What became of a batch."""

    applied: int = 0
    ignored: int = 0
    absent: int = 0
    refused: list[dict[str, str]] = msgspec.field(default_factory=list)
    named: set[str] = msgspec.field(default_factory=set)
    vouched: set[str] = msgspec.field(default_factory=set)
    position: int | None = None
    """The position of the last fact that followed."""

    def reached(self, position: int | None) -> None:
        """One decision has come this far in the journal."""
        if position is not None:
            self.position = max(position, self.position or 0)


_ABOUT_THE_OBSERVER = (FenceLost, FenceRequired, NotAllowed, RunUnknown, ScopeObserved)


class Report:
    """One batch on its way: who reports it, on what, and what has become of it."""

    def __init__(self, desk: Desk, caller: Caller, batch: Batch) -> None:
        self.desk = desk
        self.caller = caller
        self.batch = batch
        self.scope: ScopeKey = (caller.tenant, batch.scope)
        self.tally = Tally()
        self._gate = asyncio.Semaphore(SIDE_BY_SIDE)

    def read(self) -> dict[str, int]:
        """The lease that everything is guarded by.

        Raises:
            FenceLost: the observer does not hold its run any more.
            NotAllowed: its key is bound to workers, and its run is not that of this scope's observer.
            ScopeObserved: another run's holder observes the scope, under a lease that is live.
        """
        standing = self.desk.standing(self.caller, self.batch.run_id)
        holder(standing, self.desk.presented(self.caller, self.batch.fence))
        self._require_scope(standing.known.submission)
        self._require_sole()
        lease = lease_stream(self.batch.run_id)
        return {lease: standing.versions[lease]}

    def _require_scope(self, wish: RunSubmitted) -> None:
        """A key that is bound to workers observes the scope for which its run was made, and no other."""
        if self.caller.workers is None or (wish.queue, wish.concurrency_key) == (OBSERVERS_QUEUE, self.batch.scope):
            return
        raise NotAllowed(
            principal=self.caller.principal,
            action=f"observe scope {self.batch.scope!r}",
            allowed=f"the holder of a run in queue {OBSERVERS_QUEUE!r} with this concurrency key",
        )

    def _require_sole(self) -> None:
        known = self.desk.evidence.grounds.observer(self.scope)
        if known is None or known.run_id == self.batch.run_id:
            return
        other, now = self.desk.standing(self.caller, known.run_id), self.desk.clock()
        lease, mark = other.lease, other.mark
        if not isinstance(lease, Held) or lease.fence != known.fence or mark is None or mark.deadline <= now.mono:
            return
        raise ScopeObserved(
            scope=self.batch.scope,
            observer=known.run_id,
            holder=lease.worker,
            retry_after_s=round(mark.deadline - now.mono, 3),
        )

    async def all(self, told: dict[str, list[Observation]], step: Step = "told") -> None:
        """Decide on each of these workspaces; one that is refused costs no other."""
        await _together(self._one(workspace_id, seen, step) for workspace_id, seen in told.items())

    async def expected(self, cards: Sequence[GroundCard]) -> None:
        """The bodies of these have yet to come, and are not unseen any more: they would be seen to come."""
        await _together(self._expect(card.workspace_id) for card in cards)

    async def _expect(self, workspace_id: str) -> None:
        def decide(standing: Standing, now: Moment) -> RunDraft:
            return expect(standing, workspace_id, now)

        async with self._gate:
            caller = self._as(workspace_id, "expected")
            done = await on_workspace(self.desk, caller, workspace_id, decide, self.read)
            self.tally.reached(done.position)

    async def _one(self, workspace_id: str, seen: Sequence[Observation], step: Step) -> None:
        card = self.desk.live.grounds.cards.get(workspace_id)
        if card is None or card.scope_key != self.scope:
            self._ignore("unknown" if card is None else "foreign", seen)
            return
        was_over = card.over
        self.tally.named.add(workspace_id)
        async with self._gate:
            try:
                done = await tell(self.desk, self._as(workspace_id, step), workspace_id, seen, self.read)
            except _ABOUT_THE_OBSERVER:
                raise
            except (WorkspaceOver, WorkspaceUnknown):
                self._ignore("over", seen)
            except Refusal as refusal:
                self._refuse(workspace_id, refusal, seen)
            else:
                self.tally.reached(done.position)
                self._took(workspace_id, seen, meant=done.position is not None or not was_over, step=step)

    def _as(self, workspace_id: str, step: Step) -> Caller:
        """The caller, with a command id of its own for each workspace and step."""
        command_id = self.caller.command_id
        return msgspec.structs.replace(
            self.caller, command_id=None if command_id is None else f"{command_id}:{step}:{workspace_id}"
        )

    def _ignore(self, why: str, seen: Sequence[Observation]) -> None:
        count = _sent(seen)
        self.tally.ignored += count
        self.desk.evidence.grounds.counts[f"ignored_{why}"] += count

    def _refuse(self, workspace_id: str, refusal: Refusal, seen: Sequence[Observation]) -> None:
        self.tally.refused.append({"workspace_id": workspace_id, "code": refusal.code, "detail": refusal.message})
        self.desk.evidence.grounds.counts[f"refused_{refusal.code}"] += _sent(seen)

    def _took(self, workspace_id: str, seen: Sequence[Observation], *, meant: bool, step: Step) -> None:
        if any(each.kind in ALIVE for each in seen):
            self.tally.vouched.add(workspace_id)
        if step == "absent":
            self.tally.absent += 1
        elif step == "told" and meant:
            self.tally.applied += _sent(seen)
            self.desk.evidence.grounds.counts["applied"] += _sent(seen)
        elif step == "told":
            self._ignore("over", seen)


def _sent(seen: Sequence[Observation]) -> int:
    """How many of these the observer sent itself."""
    return sum(each is not _SYNCED for each in seen)


async def observe_scope(desk: Desk, caller: Caller, batch: Batch) -> Done[dict[str, Any]]:
    """How many observations were taken, how many meant nothing, and which were refused.

    Raises:
        FenceLost: the observer does not hold its run under this fence; what was applied by then stands.
        ScopeObserved: somebody else observes the scope.
        SyncBroken: the part does not follow the one before it; nothing of it was applied.
        InvalidCommand: the batch is too large, or a name is malformed.
    """
    _check(batch)
    report, grounds = Report(desk, caller, batch), desk.evidence.grounds
    arrived = desk.clock()
    report.read()
    listed = None if batch.part is None else _part_of(report, batch.part)
    lease_fence = desk.standing(caller, batch.run_id).lease.fence
    grounds.watched(report.scope, batch.run_id, lease_fence, arrived)
    await report.all(_told(batch))
    if listed is not None and batch.part is not None:
        await _part_came(report, listed, batch.part)
    elif batch.synced:
        await _reconcile(report, report.tally.named, arrived.mono - batch.listed_s_ago, batch.as_of)
    desk.note_fence(batch.fence, "observers")
    tally = report.tally
    answer = {"applied": tally.applied, "ignored": tally.ignored, "refused": tally.refused, "absent": tally.absent}
    return Done(answer, tally.position)


def _check(batch: Batch) -> None:
    check_id("observer_id", batch.observer_id)
    check_text("scope", batch.scope, SCOPE_MAX_CHARS)
    if len(batch.seen) > OBSERVATIONS_MAX:
        raise InvalidCommand(field="observations", value=len(batch.seen), limit=f"at most {OBSERVATIONS_MAX}")
    if batch.part is not None and batch.part.index >= PARTS_MAX:
        raise InvalidCommand(field="part.index", value=batch.part.index, limit=f"at most {PARTS_MAX - 1}")


def _told(batch: Batch) -> dict[str, list[Observation]]:
    """What was seen of each workspace, in order; a whole list says of those that it saw that it is one."""
    told: dict[str, list[Observation]] = {}
    for workspace_id, observation in batch.seen:
        told.setdefault(workspace_id, []).append(observation)
    if batch.synced and batch.part is None:
        for seen in told.values():
            if any(each.kind in ALIVE for each in seen):
                seen.append(_SYNCED)
    return told


def _part_of(report: Report, part: Part) -> Listed:
    """The list that this part belongs to; part 0 begins one, and the last part that came may be repeated."""
    marks, batch = report.desk.evidence.grounds, report.batch
    if part.index == 0:
        since = report.desk.clock().mono - batch.listed_s_ago
        listed = Listed(sync_id=part.sync_id, run_id=batch.run_id, since=since, as_of=batch.as_of)
        marks.list_begins(report.scope, listed)
        return listed
    known = marks.listing(report.scope)
    same = known is not None and (known.sync_id, known.run_id) == (part.sync_id, batch.run_id)
    if known is None or not same or part.index not in (known.parts, known.parts - 1):
        expected = known.parts if known is not None and same else 0
        raise SyncBroken(scope=batch.scope, sync_id=part.sync_id, index=part.index, expected=expected)
    return known


async def _part_came(report: Report, listed: Listed, part: Part) -> None:
    """Keep what this part named; the last one makes the list whole."""
    listed.parts = part.index + 1
    listed.named |= report.tally.named
    listed.vouched |= report.tally.vouched
    if not part.last:
        return
    cards = report.desk.live.grounds.cards
    unknown = [each for each in listed.vouched if each in cards and cards[each].unknown_from is not None]
    await report.all({workspace_id: [_PRESENT, _SYNCED] for workspace_id in unknown}, "restored")
    await _reconcile(report, listed.named, listed.since, listed.as_of)
    report.desk.evidence.grounds.list_ends(report.scope)


async def _reconcile(report: Report, named: set[str], listed_from: float, as_of: int | None) -> None:
    """Attached workspaces of the scope that a whole list does not name are gone; others have yet to come."""
    found = report.desk.live.grounds.of_scope(report.scope)
    missing = [card for card in found if card.workspace_id not in named]
    absent = [card for card in missing if _was_there(card, listed_from, as_of)]
    await report.all({card.workspace_id: [_GONE] for card in absent}, "absent")
    await report.expected([card for card in missing if card.attached_from is None and card.unknown_from is not None])


async def _together(doing: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Have all of these done; the first failure is raised when all have been tried."""
    for failure in await asyncio.gather(*doing, return_exceptions=True):
        if isinstance(failure, BaseException):
            raise failure


def _was_there(card: GroundCard, listed_from: float, as_of: int | None) -> bool:
    """Whether the list would have named it: it was attached to before, and its end is not known yet."""
    attached = card.attached_from is not None and card.attached_from <= listed_from
    attached = attached and (as_of is None or card.attached_position <= as_of)
    return attached and (card.phase == "running" or card.teardown)
