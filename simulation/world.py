"""The world: the real application over memory, clocks that are moved by hand, and a history that believes nothing.

One world is one journal and its service, over many lives: a restart opens the same files again, on the same node or on
another, and replays them. Everything that happens is told in one line. After every step the service's own view (folded
streams, live index, read models) is compared with what the history made of the facts; at the end everything is let go,
and nothing may be left.

A world is deterministic: the clocks are virtual, ids are counted, the event loop runs one thing at a time, and whoever
drives it draws from a seed or from Hypothesis.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from functools import partial

from commands.desk import Desk, Timers
from domain.presence import presence_stream
from journal.mapper import Recorded
from journal.registers import Write
from policies.manager import Manager
from simulation.attending import LEADERS, Attendance
from simulation.clock import OwnClock, ServiceClock, Time
from simulation.followers import ReadModel
from simulation.history import History
from simulation.laws import L6, L9, L10, L12, ONE_WRITER, ORDER, LawBroken
from simulation.marks import check_marks
from simulation.messages import Message, Reply, sent
from simulation.nodes import NODES, Process
from simulation.reaching import (
    CHECKPOINT_OF_ANOTHER,
    DROP_LOST,
    FROM_CHECKPOINT,
    HANDED_OVER,
    KILLED_LANDED,
    KILLED_LOST,
    MODEL_OF_ANOTHER,
    OLD_CHECKPOINT,
)
from simulation.replies import Replies
from simulation.shapes import differing, facts_shape, live_shape, shape
from simulation.storage import Fault, FaultyStore, Files
from simulation.truth import Truth

TIMERS = Timers(
    worker_gone_s=20.0, reconnect_s=1.0, cancel_grace_s=3.0, quarantine_s=15.0, reservation_s=8.0,
    retry_continuation_s=1.0, leader_grace_s=12.0, provisioning_s=10.0, assert_every_s=8.0, idle_reap_s=25.0,
    admission_s=6.0,
)  # fmt: skip
WAKE_UPS = 1_000
"""Most wake-ups of the process manager while time passes once: more means that it spins."""

LAG_MAX = 16
"""Facts that the follower is behind at most, but for one decision; a power of two, so that each lag has its turn."""


class World:
    """A service and everything that is known about it from outside."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.time = Time()
        self.nodes = {name: OwnClock(name, self.time, 1_000.0 * place) for place, name in enumerate(NODES, 1)}
        self.clock = ServiceClock(self.time, self.nodes[NODES[0]])
        self.story: list[str] = []
        self.attendance = Attendance()
        self.truth = Truth(self.time)
        self.truth.served_s = lambda: self.clock.served_s
        self.history = History(
            lambda: self.clock.longest_s,
            lambda leader_id: self.attendance.absent_s(leader_id, self.clock.served_s),
            self.truth,
        )
        self.history.ground_books.budget_s, self.history.ground_books.idle_s = TIMERS.provisioning_s, TIMERS.idle_reap_s
        self.truth.note = self.history.reached.note
        self.replies = Replies(self.history)
        self.files = Files(self.mint)
        self.broken: Exception | None = None
        self._models: list[ReadModel] = []
        self.model = self.another_model()
        self._opened: dict[str, object] = {}
        self._lag = 1
        """How many facts behind the follower may be before it reads on."""
        self._folded_by = NODES[0]
        self._checkpoint_by: tuple[str, int] | None = None
        self.process: Process
        self.desk: Desk
        self.manager: Manager

    def mint(self) -> str:
        """The next id."""
        return f"{next(self._ids):032x}"

    def another_model(self) -> ReadModel:
        """An empty file for read models, which is there as long as the world."""
        self._models.append(ReadModel())
        return self._models[-1]

    def _witness(self, process: Process, facts: Sequence[Recorded], writes: Sequence[Write]) -> None:
        """Keep the first law that a decision broke: raised here, it would only look like a broken disk."""
        try:
            if process is not self.process:
                raise LawBroken(ONE_WRITER, f"{process.name} appends, and the journal is {self.process.name}'s", facts)
            self.history.witness(facts, writes)
        except Exception as broken:  # noqa: BLE001  (a witness that fails itself is a finding as well)
            self.broken = self.broken or broken

    def tell(self, who: str, what: str, outcome: str = "", node: str | None = None) -> None:
        """One aligned line of the story; the node is the one that serves, unless it is named."""
        at = f"{self.time.true_s:10.3f}  {node or self.clock.own.name}"
        self.story.append(f"{at}  {who:<8}  {what:<46}  {outcome}".rstrip())

    async def start(self, node: str | None = None) -> None:
        """Start the service on this node, or where it was, on what is stored.

        Raises:
            DataDirBusy: another process serves it.
        """
        own = self.clock.own if node is None else self.nodes[node]
        process = Process(own, self.files, self.mint)
        if own.name != self.clock.own.name:
            self.history.reached.note(HANDED_OVER)
        self.clock.hand_over(own)
        self.process = process
        process.witnessed(partial(self._witness, process))
        self._used(process.replay(TIMERS))
        self.desk = process.desk
        self._opened = shape(self.desk.live, self.history)
        await process.accept()
        self.manager = process.manager
        if self._folded_by != own.name and self.model.position:
            self.history.reached.note(MODEL_OF_ANOTHER)
        self._folded_by = own.name
        self.model.go_on(process.store.stream)
        self.history.leases.booted()
        self.tell("service", f"ready at position {self.desk.journal.position}", own.told())

    def _used(self, checkpoint: object) -> None:
        if checkpoint is None or self._checkpoint_by is None:
            return
        (by, position), note = self._checkpoint_by, self.history.reached.note
        note(FROM_CHECKPOINT)
        if by != self.process.name:
            note(CHECKPOINT_OF_ANOTHER)
        if position < self.files.tail.position:
            note(OLD_CHECKPOINT)

    def write_checkpoint(self) -> None:
        """The service leaves a checkpoint for whoever starts next."""
        position = self.process.write_checkpoint()
        self._checkpoint_by = (self.process.name, position)
        self.tell("service", f"writes a checkpoint of {position}")

    async def restart(self, away_s: float = 0.0, *, killed: bool = False, node: str | None = None) -> None:
        """End this life of the service, let time pass without it, and begin the next on the same files."""
        self.heal()
        went = self.clock.served_s
        if killed:
            if self.attendance.links:
                self.history.reached.note(DROP_LOST)
            await self.attendance.killed(self.desk, went)
        for each in list(self.attendance.links):
            await self.attendance.drop(each, "server_stopping", went)
        await self.recorded()
        before = shape(self.desk.live, self.history)
        self.process.end()
        self.clock.advance(away_s)
        self.attendance.restarted(self.clock.served_s, went)
        self.tell("service", f"ends; the next begins after {away_s:g} s on {node or self.process.name}")
        await self.start(node)
        if before != self._opened:
            raise LawBroken(L9, "the live index replayed otherwise than it was", differing(before, self._opened))
        self.check()

    async def deliver(self, message: Message) -> Reply:
        """Deliver one message; the sender hears the reply."""
        process = self.process
        reply = await sent(message, process.desk)
        self.tell(message.caller.principal, message.text, reply.text, process.name)
        self.replies.check(message, reply, process.name)
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

    async def crash_during(
        self,
        messages: Sequence[Message],
        *,
        lands: bool,
        away_s: float,
        node: str | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Kill the service while these are under way: their appends land or do not, and nobody hears either way."""
        self.tell(
            "service", f"is killed under {len(messages)} messages; what was appended {'stays' if lands else 'is lost'}"
        )
        under_way = [asyncio.ensure_future(sent(message, self.desk)) for message in messages]
        await asyncio.sleep(0)
        meanwhile()
        self.history.reached.note(KILLED_LANDED if lands else KILLED_LOST)
        if not lands:
            self.fail_next("before")
        await asyncio.gather(*under_way, return_exceptions=True)
        self.heal()
        for message in messages:
            self.replies.note(message, Reply(unknown=True), self.process.name)
            message.heard(Reply(unknown=True))
        await self.restart(away_s, killed=True, node=node)

    def fail_next(self, fault: Fault) -> None:
        """The next append fails in this way."""
        self.tell("disk", f"fails {fault} the next append")
        self.store.fault = fault

    async def pass_time(self, seconds: float, *, noticed: bool = True, told: bool = True) -> None:
        """Let time pass by the clock of the service; its process manager acts on time, or has not come to it yet."""
        if told:
            self.tell("clock", f"{seconds:g} s pass{'' if noticed else ' unnoticed'}")
        until = self.clock.served_s + seconds
        if not noticed:
            self.clock.advance(seconds)
            return
        for _ in range(WAKE_UPS):
            await self._keep_promises()
            left_s = until - self.clock.served_s
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
        self.store.fault = None
        self.store.is_well()

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock of the node that serves."""
        self.tell("clock", f"the wall is set {seconds:+g} s")
        self.clock.set_wall(seconds)

    def check(self) -> None:
        """Raise what a decision broke, then compare everything that the service shows with what was recorded."""
        self.store.is_well()
        self._check_journal(self.history.touched)
        self.history.touched.clear()
        index, facts = live_shape(self.desk.live, self.history), facts_shape(self.history)
        if index != facts:
            raise LawBroken(L9, "the live index is not the facts'", differing(index, facts))
        check_marks(self.desk.live, self.desk.evidence)
        self._check_presence()
        if self.history.position - self.model.position >= self._lag:
            self.follow()

    def _check_journal(self, streams: Sequence[str] | set[str]) -> None:
        if self.broken is not None:
            raise self.broken
        journal, history = self.desk.journal, self.history
        if journal.fault is not None:
            raise LawBroken(L9, f"the service has a fault of its own: {journal.fault}")
        if not journal.position == history.position == self.files.tail.position:
            raise LawBroken(L9, f"published up to {journal.position} of {history.position} facts")
        if self.replies.acknowledged > history.position:
            raise LawBroken(L10, f"{self.replies.acknowledged} was acknowledged", [history.position])
        for stream in sorted(streams):
            live, state = journal.streams.load(stream), history.states[stream]
            if live != state:
                raise LawBroken(L9, f"the live state of {stream} is not its facts'", [live, state])

    def _check_presence(self) -> None:
        """The service counts the links that are there, as soon as nothing is on the way."""
        if self.desk.unfinished:
            return
        for leader_id in LEADERS:
            counted = self.history.state(presence_stream("default", leader_id)).connections
            links = {key for key, link in counted.items() if link.boot_id is not None}
            if links != self.attendance.ids(leader_id):
                raise LawBroken(L6, f"{leader_id!r} has other links than are counted", [links])

    def follow(self) -> None:
        """Read on as a follower of the feed does: every fact once, in order, in batches of no certain size."""
        self._lag = 1 + (self._lag * 5 + 3) % LAG_MAX
        feed = self.desk.journal.feed
        while batch := feed.after(self.model.position):
            self.model.absorb(batch)
        if self.model.position != self.history.position:
            raise LawBroken(ORDER, f"a follower ends at {self.model.position} of {self.history.position}")

    def check_replay(self) -> None:
        """Fold the whole journal again, into states and into the read model, and compare both to the byte."""
        self._check_journal(list(self.history.states))
        self.follow()
        store = self.store
        again = History(lambda: self.clock.longest_s, lambda _: 0.0)
        for recorded in store.facts_after(0, 1_000_000):
            again.replay(recorded)
        if again.states != self.history.states:
            raise LawBroken(L9, "replaying the journal gives other states")
        with contextlib.closing(ReadModel()) as rebuilt:
            rebuilt.rebuild(store, self.history.position)
            difference = self.model.differs_from(rebuilt)
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
        """The files as the process sees them that serves."""
        return self.process.store

    async def abandon(self) -> None:
        """End this life in the middle, with whatever is open and under way."""
        under_way = list(self.desk.unfinished)
        for doing in under_way:
            doing.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self.attendance.killed(self.desk, self.clock.served_s)
        self.process.end()

    def close(self) -> None:
        """Give everything back."""
        for model in self._models:
            model.close()
        self.files.close()
