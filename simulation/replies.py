"""What the service answered, held against what it recorded and what it answered before.

A command has one answer, however often and by whichever node it is given; what is acknowledged is recorded; a guarded
write is acknowledged only to whom the fence was granted; no grant is told in two answers.
"""

from collections.abc import Iterable

from simulation.history import History
from simulation.laws import L1, L2, L10, L15, LawBroken
from simulation.messages import Message, Reply
from simulation.reaching import OTHER_BODY, REPEATED, REPEATED_AFTER, REPEATED_ELSEWHERE, STALE_OBSERVER, ZOMBIE
from simulation.shapes import canonical


class Replies:
    """Keeps them, for one world."""

    def __init__(self, history: History) -> None:
        self.acknowledged = 0
        """The last position that anybody was told."""
        self._history = history
        self._answers: dict[str, tuple[bytes, int]] = {}
        self._by: dict[str, str] = {}
        self._doubtful: set[str] = set()
        self._claimed: dict[tuple[str, int], str | None] = {}

    def check(self, message: Message, reply: Reply, node: str) -> None:
        """Take note of one answer of a node.

        Raises:
            LawBroken: it should not have been given.
        """
        self.note(message, reply, node)
        if reply.refused is not None or reply.position is None:
            return
        if message.right is not None:
            run_id, fence, worker = message.right
            if self._history.worker_of(run_id, fence) != worker:
                raise LawBroken(L2, f"{worker!r} wrote under fence {fence}, which it was never granted", [message.text])
        if reply.position > self._history.position:
            raise LawBroken(L10, f"{message.text!r} was acknowledged, and nothing of it is recorded", [reply])
        self.acknowledged = max(self.acknowledged, reply.position)
        command_id = message.caller.command_id
        if command_id is not None:
            now = (canonical(reply.answer), reply.position)
            first = self._answers.setdefault(command_id, now)
            if now != first and not _tally(reply.answer):
                raise LawBroken(L15, f"{message.text!r} was answered otherwise", [first, now])
        if isinstance(reply.answer, dict):
            self._check_claims(reply.answer.get("claims", ()), command_id)

    def note(self, message: Message, reply: Reply, node: str) -> None:
        """Count the situation that an answer is given in."""
        note, command_id = self._history.reached.note, message.caller.command_id
        if reply.refused == "fence_lost":
            note(STALE_OBSERVER if message.caller.principal.startswith("o") else ZOMBIE)
        elif reply.refused == "identity_changed":
            note(OTHER_BODY)
        elif reply.unknown and command_id is not None:
            self._doubtful.add(command_id)
        elif reply.repeated:
            note(REPEATED_AFTER if command_id in self._doubtful else REPEATED)
            if self._by.get(str(command_id), node) != node:
                note(REPEATED_ELSEWHERE)
        if command_id is not None:
            self._by.setdefault(command_id, node)

    def _check_claims(self, claims: Iterable[dict[str, object]], command_id: str | None) -> None:
        for claim in claims:
            key = (str(claim["run_id"]), int(str(claim["fence"])))
            if self._claimed.setdefault(key, command_id) != command_id:
                raise LawBroken(L1, f"{key} was granted in two answers", [claim])


def _tally(answer: object) -> bool:
    """Whether an answer says what became of each part of a batch: its parts have one effect each, told as it is."""
    return isinstance(answer, dict) and "applied" in answer
