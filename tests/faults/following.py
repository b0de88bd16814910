"""Readers of streams that go on wherever they were: each frame is written down, whatever became of the connection.

A reader keeps the last id that it has read whole, and opens the stream again from there when the connection ends. It
judges nothing; `repeated` and `missed` say what a validator wants to know: each position once, in order, none left out.

In `follow_across` three readers follow one run through a proxy that cuts them: its facts, its output, and its leader's
presence. In the end what they have read is what was recorded.
"""

import http.client
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from tests.system.calling import Caller, Frame, Listening
from tests.system.cutting import Cutting
from tests.system.serving import Service, register, submit
from tests.waiting import until

NOBODY = (OSError, http.client.HTTPException, AssertionError)
"""How a stream that breaks off, or is refused because the service boots, looks from here."""


SHARE = 0.12
"""How many of the pieces that the service says are cut."""
KILLED_AT = (5, 15, 25)
LAST = "the last words\n"


class Follower(threading.Thread):
    """One reader of one stream, until it has read the last frame."""

    def __init__(self, caller: Caller, path: str, last: Callable[[Frame], bool]) -> None:
        super().__init__(daemon=True)
        self.caller = caller
        self.path = path
        self.frames: list[Frame] = []
        self.last_id: str | None = None
        self.opened = 0
        self.greeted = False
        self._is_last = last
        self._over = threading.Event()

    def run(self) -> None:
        """Read to the end."""
        until(self._read, what=f"the end of {self.path}", within_s=1800)

    def stop(self) -> None:
        """Read no more: something else has failed."""
        self._over.set()

    def _read(self) -> bool:
        """Whether the last frame was read on this connection."""
        try:
            with Listening(self.caller, self.path, self.last_id, timeout_s=5.0) as frames:
                self.opened += 1
                for frame in frames:
                    self.last_id = frame.id or self.last_id
                    if frame.name in ("hello", "settled_while_away"):
                        self.greeted = True
                        continue
                    self.frames.append(frame)
                    if self._is_last(frame):
                        return True
        except NOBODY:
            pass
        return self._over.is_set()

    @property
    def ids(self) -> list[str]:
        """Every id that was read, in the order of reading."""
        return [frame.id for frame in self.frames]


def repeated(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours that do not rise."""
    return [(before, after) for before, after in pairwise(positions) if after <= before]


def missed(positions: Sequence[int], recorded: Sequence[int]) -> list[int]:
    """What was recorded and not read."""
    return sorted(set(recorded) - set(positions))


def settles(frame: Frame) -> bool:
    return frame.name == "run.settled.v1"


def ends_output(frame: Frame) -> bool:
    return bool(frame.document["data"] == LAST)


@contextmanager
def followed(service: Service, proxy: Cutting, run_id: str) -> Iterator[dict[str, Follower]]:
    """Readers of the run's streams, which have read everything when the block has ended."""
    through = Caller(proxy.port, service.key)
    readers = {
        "facts": Follower(through, f"/v1/runs/{run_id}/facts", settles),
        "presence": Follower(through, "/v1/leaders/ada/presence", settles),
        "output": Follower(through, f"/v1/runs/{run_id}/output", ends_output),
    }
    for reader in readers.values():
        reader.start()
    try:
        until(lambda: readers["presence"].greeted, what="the leader to be greeted")
        yield readers
    except BaseException:
        for reader in readers.values():
            reader.stop()
        raise
    for reader in readers.values():
        reader.join(60)
        assert not reader.is_alive(), f"{reader.path} has not ended: {reader.ids[-5:]}"


def turn(caller: Caller, run_id: str, worker: str) -> None:
    """One attempt: output, a question, and its answer."""
    fence = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": worker}).ok()["fence"]
    for seq in range(3):
        caller.post(f"/v1/runs/{run_id}/output", {"fence": fence, "seq": seq, "data": f"{fence}.{seq}\n"}).ok(204)
    caller.post(f"/v1/runs/{run_id}/park", {"fence": fence, "question": fence}).ok()
    caller.post(f"/v1/runs/{run_id}/answer", {"answer": fence}).ok()


def follow_across(service: Service, seed: int, cuts: int) -> int:
    """How many frames were read across so many cuts and a few kills of a running service.

    Raises:
        AssertionError: one was read twice, out of order, or not at all.
    """
    caller = service.caller()
    worker = register(caller, "writer")
    run_id = submit(caller, leader_id="ada", policy={"max_attempts": 1000})
    with Cutting(service.port, seed, SHARE) as proxy, followed(service, proxy, run_id) as readers:
        turns = 0
        while proxy.cuts < cuts:
            turn(caller, run_id, worker)
            turns += 1
            assert turns < 100 * cuts, f"only {proxy.cuts} cuts"
            if turns in KILLED_AT:
                service.kill()
                service.start()
                caller.close()
        fence = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": worker}).ok()["fence"]
        caller.post(f"/v1/runs/{run_id}/output", {"fence": fence, "seq": 0, "data": LAST}).ok(204)
        caller.post(f"/v1/runs/{run_id}/cancel").ok()
        caller.post(f"/v1/runs/{run_id}/hand-back", {"fence": fence}).ok()
    _judge(caller, run_id, readers, seed)
    return sum(len(reader.frames) for reader in readers.values())


def _judge(caller: Caller, run_id: str, readers: dict[str, Follower], seed: int) -> None:
    facts = caller.facts(run_id)
    settled = next(fact["position"] for fact in facts if fact["topic"] == "run.settled.v1")
    facts = [fact for fact in facts if fact["position"] <= settled]
    for name, wanted in (
        ("facts", [fact["position"] for fact in facts]),
        ("presence", [fact["position"] for fact in facts[1:] if fact["topic"].startswith("run.")]),
    ):
        read = [int(one) for one in readers[name].ids]
        assert ([], []) == (repeated(read), missed(read, wanted)), (name, seed)
        assert wanted == read, (name, seed)
    chunks = [f"{chunk['fence']}.{chunk['seq']}" for chunk in caller.output(run_id)]
    assert chunks == readers["output"].ids, seed
    assert all(reader.opened > 1 for reader in readers.values()), "a reader was never cut"
