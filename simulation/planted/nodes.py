"""Planted faults about several nodes and their clocks: locks, writers, takeovers, and whose time is gone by.

Each function makes one part wrong for as long as the patch lasts.
"""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

import domain.presence
from commands.boot import Opening
from commands.desk import Desk
from journal.memory import MemoryStore
from simulation.messages import Message
from simulation.workers import Worker


def start_beside_the_writer(patch: pytest.MonkeyPatch) -> None:
    """A process does not ask for the lock before it opens the journal."""
    patch.setattr("journal.lock.fcntl.flock", lambda descriptor, how: None)


def let_the_old_writer_go_on(patch: pytest.MonkeyPatch) -> None:
    """Whoever has lost the journal to another process appends to it all the same."""
    right = MemoryStore._require_place

    def require_place(store: MemoryStore, before: Any) -> None:
        store.stored_writer = store.writer
        store.tail = before
        right(store, before)

    patch.setattr("simulation.storage.FaultyStore._require_place", require_place)


def believe_the_workers_wall(patch: pytest.MonkeyPatch) -> None:
    """A renewal counts from the instant that its worker's wall showed."""
    right = Worker.heartbeat

    def heartbeat(worker: Worker) -> Message:
        message, sent = right(worker), worker.clock()

        async def send(desk: Desk, caller: Any) -> Any:
            own = desk.clock
            ahead_s = (sent.wall - own().wall).total_seconds()
            patch.setattr(desk, "clock", lambda: own().after(ahead_s))
            try:
                return await message.send(desk, caller)
            finally:
                patch.setattr(desk, "clock", own)

        return msgspec.structs.replace(message, send=send)

    patch.setattr(Worker, "heartbeat", heartbeat)


def trust_an_instant_of_another_node(patch: pytest.MonkeyPatch) -> None:
    """A node that takes over goes by the monotonic deadlines of the one before."""
    right = Opening.finish
    before: list[Desk] = []

    def finish(opening: Opening) -> Desk:
        desk = right(opening)
        if desk.journal.position and before:
            for run_id, mark in before[-1].evidence.leases._marks.items():
                desk.live.remind("lease", mark.deadline, (run_id,), str(mark.fence))
                desk.evidence.leases._marks[run_id] = mark
        before[:] = [desk]
        return desk

    patch.setattr(Opening, "finish", finish)


def go_by_the_wall_of_another_node(patch: pytest.MonkeyPatch) -> None:
    """A node that takes over counts a lease's age from what the wall of the one before had shown."""
    right = Opening.finish

    def finish(opening: Opening) -> Desk:
        desk = right(opening)
        last, now, marks = desk.journal.last_append_at, desk.clock(), desk.evidence.leases._marks
        aged_s = 0.0 if last is None else max(0.0, (now.wall - last) / timedelta(seconds=1))
        for run_id, mark in list(marks.items()):
            marks[run_id] = msgspec.structs.replace(mark, deadline=mark.deadline - aged_s)
            desk.live.remind("lease", mark.deadline - aged_s, (run_id,), str(mark.fence))
        return desk

    patch.setattr(Opening, "finish", finish)


def keep_the_links_of_another_life(patch: pytest.MonkeyPatch) -> None:
    """A start leaves connections counted that ended with the process that held them."""
    right = domain.presence.reseed

    def reseed(presence: Any, leader_id: str, cause: Any, now: Any) -> Any:
        return [] if cause == "boot" and presence.connections else right(presence, leader_id, cause, now)

    patch.setattr("commands.presence.reseed", reseed)


def take_a_checkpoint_for_the_tail(patch: pytest.MonkeyPatch) -> None:
    """A start from a checkpoint reads nothing that was recorded after it."""
    right = Opening.replay_some

    def replay_some(opening: Opening) -> bool:
        checkpoint = opening.checkpoint
        if checkpoint is not None and opening._after >= checkpoint.position:
            return False
        return right(opening)

    patch.setattr(Opening, "replay_some", replay_some)
