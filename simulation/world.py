"""The world: the real application over memory, a clock that is moved by hand, and a history that believes nothing.

One world is one service with its journal, over many lives: a restart opens the same journal again and replays it.
Everything that happens is told in one line. After every step the service's own view (folded streams, live index, the
`runs` read model) is compared with what the history made of the facts; at the end everything is let go, and nothing
may be left.

A world is deterministic: the clock is virtual, ids are counted, the event loop runs one thing at a time, and whoever
drives it draws from a seed or from Hypothesis.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Sequence

from commands.boot import open_desk
from commands.desk import Desk, Timers
from commands.presence import reseed_leaders
from commands.watching import unknown_since_boot
from domain.presence import presence_stream
from journal.checkpoints import Checkpoint
from journal.commit import Journal
from journal.mapper import Recorded
from journal.registers import Write
from policies.manager import Manager
from projections.comparing import first_difference
from projections.live.kept import Kept
from projections.refolding import Refolding, Start
from projections.stored.catalogue import PROJECTIONS
from projections.stored.database import create_tables, scratch
from projections.stored.known import Known, Told, told
from projections.stored.projection import Folding
from simulation.attending import LEADERS, Attendance
from simulation.clock import VirtualClock
from simulation.history import History
from simulation.laws import L1, L2, L6, L9, L10, L12, L15, ORDER, LawBroken
from simulation.marks import check_marks
from simulation.messages import Message, Reply, sent
from simulation.reaching import (
    DROP_LOST,
    FROM_CHECKPOINT,
    KILLED_LANDED,
    KILLED_LOST,
    OTHER_BODY,
    REPEATED,
    REPEATED_AFTER,
    STALE_OBSERVER,
    ZOMBIE,
)
from simulation.shapes import canonical, differing, facts_shape, live_shape, shape
from simulation.storage import Fault, FaultyJournal, FaultyStore
from simulation.truth import Truth

TIMERS = Timers(
    worker_gone_s=20.0, reconnect_s=1.0, cancel_grace_s=3.0, quarantine_s=15.0, reservation_s=8.0,
    retry_continuation_s=1.0, leader_grace_s=12.0, provisioning_s=10.0, assert_every_s=8.0, idle_reap_s=25.0,
    admission_s=6.0,
)  # fmt: skip
WAKE_UPS = 1_000
"""Most wake-ups of the process manager while time passes once: more means that it spins."""
FOLLOWED = 7
"""Runs that the incremental read model keeps folded: few, so that it has to read back."""


class World:
    """A service and everything that is known about it from outside."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.story: list[str] = []
        self.attendance = Attendance()
        self.truth = Truth()
        self.history = History(
            lambda: self.clock.longest_s,
            lambda leader_id: self.attendance.absent_s(leader_id, self.clock.now.mono),
            self.truth,
        )
        self.history.ground_books.budget_s, self.history.ground_books.idle_s = TIMERS.provisioning_s, TIMERS.idle_reap_s
        self._ids = itertools.count(1)
        self._application = FaultyJournal(self.mint(), self.mint())
        self._application.store.witness = self._witness
        self.broken: Exception | None = None
        self._answers: dict[str, tuple[bytes, int]] = {}
        self._doubtful: set[str] = set()
        self._opened: dict[str, object] = {}
        self._claimed: dict[tuple[str, int], str | None] = {}
        self._model = scratch()
        self._known = Known(self._application.store.stream, FOLLOWED, FOLLOWED)
        self._foldings = [Folding(projection, self._known) for projection in PROJECTIONS]
        for projection in PROJECTIONS:
            create_tables(self._model, projection.tables, "")
        self._followed = 0
        self.desk: Desk
        self.manager: Manager

    def mint(self) -> str:
        """The next id."""
        return f"{next(self._ids):032x}"

    def _witness(self, facts: Sequence[Recorded], writes: Sequence[Write]) -> None:
        """Keep the first law that a decision broke: raised here, it would only look like a broken disk."""
        try:
            self.history.witness(facts, writes)
        except Exception as broken:  # noqa: BLE001  (a witness that fails itself is a finding as well)
            self.broken = self.broken or broken

    def tell(self, who: str, what: str, outcome: str = "") -> None:
        """One aligned line of the story."""
        self.story.append(f"{self.clock.elapsed_s:10.3f}  {who:<8}  {what:<46}  {outcome}".rstrip())

    async def start(self, checkpoint: int | None = None) -> None:
        """Open the journal and start the service on it, from a checkpoint at this position if there is one."""
        journal = Journal(self._application, self.clock, self.mint)
        journal.start()
        self.desk = open_desk(journal, self.clock, self.mint, TIMERS, self._checkpoint(checkpoint))
        self._opened = shape(self.desk.live, self.history)
        await reseed_leaders(self.desk)
        await unknown_since_boot(self.desk)
        self.manager = Manager(self.desk)
        self.tell("service", f"ready at position {journal.position}")

    def _checkpoint(self, position: int | None) -> Checkpoint | None:
        if position is None:
            return None
        self.history.reached.note(FROM_CHECKPOINT)
        kept = Kept()
        kept.fold(self._application.store.facts_after(0, position))
        return Checkpoint(kept.position, kept.positions())

    async def restart(self, away_s: float = 0.0, *, killed: bool = False, checkpoint: int | None = None) -> None:
        """End this life of the service, let time pass without it, and begin the next on the same journal."""
        self.heal()
        went = self.clock.now.mono
        if killed:
            if self.attendance.links:
                self.history.reached.note(DROP_LOST)
            await self.attendance.killed(self.desk, went)
        for each in list(self.attendance.links):
            await self.attendance.drop(each, "server_stopping", went)
        await self.recorded()
        before = shape(self.desk.live, self.history)
        self.clock.advance(away_s)
        self.attendance.restarted(self.clock.now.mono, went)
        self.tell("service", f"restarts after {away_s:g} s")
        await self.start(checkpoint)
        if before != self._opened:
            raise LawBroken(L9, "the live index replayed otherwise than it was", differing(before, self._opened))
        self.check()

    async def deliver(self, message: Message) -> Reply:
        """Deliver one message; the sender hears the reply."""
        reply = await sent(message, self.desk)
        self.tell(message.caller.principal, message.text, reply.text)
        self._check_reply(message, reply)
        message.heard(reply)
        return reply

    async def deliver_together(self, messages: Sequence[Message]) -> None:
        """Deliver messages side by side; their decisions interleave at every wait."""
        self.tell("network", f"delivers {len(messages)} messages together")
        await asyncio.gather(*(self.deliver(message) for message in messages))

    async def deliver_meanwhile(self, messages: Sequence[Message]) -> None:
        """Deliver messages while the promises that are due are decided on, and not recorded yet."""
        self.tell("network", f"delivers {len(messages)} messages while promises are kept")

        async def arrives(message: Message) -> None:
            await asyncio.sleep(0)  # the promises are decided on first
            await self.deliver(message)

        await asyncio.gather(self.manager.step(), *(arrives(message) for message in messages))

    async def crash_during(self, messages: Sequence[Message], *, lands: bool, away_s: float) -> None:
        """Kill the service while these are under way: their appends land or do not, and nobody hears either way."""
        self.tell(
            "service", f"is killed under {len(messages)} messages; what was appended {'stays' if lands else 'is lost'}"
        )
        under_way = [asyncio.ensure_future(sent(message, self.desk)) for message in messages]
        await asyncio.sleep(0)
        self.history.reached.note(KILLED_LANDED if lands else KILLED_LOST)
        if not lands:
            self.fail_next("before")
        await asyncio.gather(*under_way, return_exceptions=True)
        self.heal()
        for message in messages:
            self._note(message, Reply(unknown=True))
            message.heard(Reply(unknown=True))
        await self.restart(away_s, killed=True)

    def fail_next(self, fault: Fault) -> None:
        """The next append fails in this way."""
        self.tell("disk", f"fails {fault} the next append")
        self._application.store.fault = fault

    async def pass_time(self, seconds: float, *, noticed: bool = True) -> None:
        """Let time pass; the process manager acts on time, or has not come to it yet."""
        self.tell("clock", f"{seconds:g} s pass{'' if noticed else ' unnoticed'}")
        until = self.clock.now.mono + seconds
        if not noticed:
            self.clock.advance(seconds)
            return
        for _ in range(WAKE_UPS):
            await self._keep_promises()
            left_s = until - self.clock.now.mono
            if left_s <= 0:
                return
            self.clock.advance(min(left_s, max(self.manager.next_in_s(self.clock.now), 0.001)))
        raise LawBroken(L12, f"the process manager woke up {WAKE_UPS} times in {seconds:g} s", self.story[-20:])

    async def _keep_promises(self) -> None:
        before = self.history.position
        for _ in range(WAKE_UPS):
            if not await self.manager.step():
                break
        else:
            raise LawBroken(L12, f"something was due {WAKE_UPS} times at one moment", self.story[-20:])
        if self.history.position > before:
            self.tell("service", "keeps its promises", f"@{self.history.position}")

    async def recorded(self) -> None:
        """Whatever is recorded beside the messages (the drop of a link) is: a disk that fails once is tried again."""
        await asyncio.gather(*self.desk.unfinished)
        await self.desk.journal.drain()

    def heal(self) -> None:
        """The disk is well again."""
        self._application.store.fault = None
        self._application.store.is_well()

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.tell("clock", f"the wall is set {seconds:+g} s")
        self.clock.set_wall(seconds)

    def _check_reply(self, message: Message, reply: Reply) -> None:
        self._note(message, reply)
        if reply.refused is not None:
            return
        if reply.position is not None and message.right is not None:
            run_id, fence, worker = message.right
            if self.history.worker_of(run_id, fence) != worker:
                raise LawBroken(L2, f"{worker!r} wrote under fence {fence}, which it was never granted", [message.text])
        command_id = message.caller.command_id
        if command_id is not None and reply.position is not None:
            if reply.position > self.history.position:
                raise LawBroken(L10, f"{message.text!r} was acknowledged, and nothing of it is recorded", [reply])
            now = (canonical(reply.answer), reply.position)
            first = self._answers.setdefault(command_id, now)
            if now != first and not _tally(reply.answer):
                raise LawBroken(L15, f"{message.text!r} was answered otherwise", [first, now])
        if isinstance(reply.answer, dict) and reply.position is not None:
            self._check_claims(reply.answer.get("claims", ()), command_id)

    def _note(self, message: Message, reply: Reply) -> None:
        note, command_id = self.history.reached.note, message.caller.command_id
        if reply.refused == "fence_lost":
            note(STALE_OBSERVER if message.caller.principal.startswith("o") else ZOMBIE)
        elif reply.refused == "identity_changed":
            note(OTHER_BODY)
        elif reply.unknown and command_id is not None:
            self._doubtful.add(command_id)
        elif reply.repeated:
            note(REPEATED_AFTER if command_id in self._doubtful else REPEATED)

    def _check_claims(self, claims: Iterable[dict[str, object]], command_id: str | None) -> None:
        for claim in claims:
            key = (str(claim["run_id"]), int(str(claim["fence"])))
            if self._claimed.setdefault(key, command_id) != command_id:
                raise LawBroken(L1, f"{key} was granted in two answers", [claim])

    def check(self) -> None:
        """Raise what a decision broke, then compare everything that the service shows with what was recorded."""
        if self.broken is not None:
            raise self.broken
        store, journal, history = self._application.store, self.desk.journal, self.history
        store.is_well()
        if journal.fault is not None:
            raise LawBroken(L9, f"the service has a fault of its own: {journal.fault}")
        if not journal.position == history.position == store.tail.position:
            raise LawBroken(L9, f"published up to {journal.position} of {history.position} facts")
        for stream, state in history.states.items():
            live = journal.streams.load(stream)
            if live != state:
                raise LawBroken(L9, f"the live state of {stream} is not its facts'", [live, state])
        index, facts = live_shape(self.desk.live, history), facts_shape(history)
        if index != facts:
            raise LawBroken(L9, "the live index is not the facts'", differing(index, facts))
        check_marks(self.desk.live, self.desk.evidence)
        self._check_presence()
        self._follow()

    def _check_presence(self) -> None:
        """The service counts the links that are there, as soon as nothing is on the way."""
        if self.desk.unfinished:
            return
        for leader_id in LEADERS:
            counted = self.history.state(presence_stream("default", leader_id)).connections
            links = {key for key, link in counted.items() if link.boot_id is not None}
            if links != self.attendance.ids(leader_id):
                raise LawBroken(L6, f"{leader_id!r} has other links than are counted", [links])

    def _follow(self) -> None:
        """Read on as a follower of the feed does: every fact once, in order."""
        facts: list[Recorded] = []
        while batch := self.desk.journal.feed.after(self._followed):
            for recorded in batch:
                if recorded.position != self._followed + 1:
                    raise LawBroken(ORDER, f"a follower at {self._followed} was given {recorded.position}", [recorded])
                self._followed = recorded.position
            facts += batch
        if self._followed != self.history.position:
            raise LawBroken(ORDER, f"a follower ends at {self._followed} of {self.history.position}")
        self._fold(told(facts))

    def _fold(self, facts: Sequence[Told]) -> None:
        self._known.note(facts)
        with self._model:
            for folding in self._foldings:
                folding.absorb(facts)
                folding.changes()(self._model, "")
                if folding.aside:
                    raise LawBroken(L9, f"{folding.projection.name} cannot fold a fact", [*folding.aside.values()])

    def check_replay(self) -> None:
        """Fold the whole journal again, into states and into the read model, and compare both to the byte."""
        store = self._application.store
        again = History(lambda: self.clock.longest_s, lambda _: 0.0)
        for recorded in store.facts_after(0, 1_000_000):
            again.replay(recorded)
        if again.states != self.history.states:
            raise LawBroken(L9, "replaying the journal gives other states")
        with contextlib.closing(scratch()) as rebuilt:
            for projection in PROJECTIONS:
                create_tables(rebuilt, projection.tables, "")
            refolding = Refolding(store, [Start(projection) for projection in PROJECTIONS])
            refolding.finish(self.history.position)
            for _, write in refolding.changes():
                write(rebuilt, "")
            differences = (first_difference(self._model, rebuilt, projection) for projection in PROJECTIONS)
            difference = next((one for one in differences if one is not None), None)
        if difference is not None:
            raise LawBroken(L9, "the rebuilt read model differs from the one that followed", [difference])
        verdict = store.verify()
        if not verdict.ok:
            raise LawBroken(L9, f"the chain of the journal is broken: {verdict.problem}")

    def check_quiet(self) -> None:
        """Nothing is open: no lease, mark, limit or token may be left."""
        live, evidence = self.desk.live, self.desk.evidence
        left = {
            "open runs": len(live.cards),
            "leases": live.limits.total(),
            "reservations": len(live.reservations),
            "lease marks": evidence.sizes()["leases"],
            "activity marks": evidence.sizes()["activity"],
            "waiting claims": len(live.bells),
            "workers seen": evidence.sizes()["workers"],
            "deadlines": len(live.deadlines),
            "leaders": len(live.leaders.items()),
            "connections": evidence.sizes()["connections"],
            "sessions": evidence.sizes()["sessions"],
            "drops": len(self.desk.unfinished),
            "workspaces": len(live.grounds),
            **{name: evidence.sizes()[name] for name in ("turns", "tools", "asserted", "words", "observers", "lists")},
            "undelivered turns": len(live.admissions),
        }
        if any(left.values()):
            raise LawBroken(L12, f"left at quiescence: {left}")

    @property
    def store(self) -> FaultyStore:
        """What outlives every life of the service."""
        return self._application.store

    async def abandon(self) -> None:
        """End this life in the middle, with whatever is open and under way."""
        under_way = list(self.desk.unfinished)
        for doing in under_way:
            doing.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self.attendance.killed(self.desk, self.clock.now.mono)

    def close(self) -> None:
        """Give everything back."""
        self._model.close()


def _tally(answer: object) -> bool:
    """Whether an answer says what became of each part of a batch: its parts have one effect each, told as it is."""
    return isinstance(answer, dict) and "applied" in answer
