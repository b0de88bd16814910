"""P13: facts of runs on their way to everybody who follows them: streams of leaders, and of single runs.

So many leaders are present by an event stream and want one run each; so many others follow the facts of one of these
runs. The runs are paused and resumed in turn at a steady rate, whether or not the service keeps up; a pause is two
facts (asked for, parked) and a resume one, and every other run is paused beforehand, so that both go on side by side.

Measured to the moment at which the event is read, for every stream that must have it: from the answer to the command,
when the fact is known to be durable, where an event that overtakes its own answer counts as 0; and, which is what must
be reached since it hides nothing, from the moment at which the command was due to be sent. Every stream must have
every fact of its run, once and in order, or the measurement fails. Client and service share the machine, so what the
client takes to read an event is part of the figure.

A stream takes a file descriptor on each side: the limit of this process, which the service inherits, is raised.

    python -m benchmarks.p13_streams [--streams 1000] [--followers 1000] [--rate 500] [--seconds 10] [--rounds 3]
"""

import argparse
import asyncio
import re
import resource
import time
from collections.abc import Sequence
from typing import cast

from benchmarks.lean import HOST, Client, Connection, measured, side_by_side
from benchmarks.measuring import Figures, measure, quantiles
from benchmarks.serving import Serving

CONNECTIONS = 32
OPENING = 50
"""Streams that are opened at the same time."""
LIMIT_S = 60.0
FACTS = {"pause": 2, "resume": 1}
GRACE_S = 3600.0
"""Long enough that the leaders of one round are not settled during the next."""
FRAME = re.compile(rb"id: (\d+)\nevent: (\S+)\ndata: [^\n]*\n\n")


class Following(asyncio.Protocol):
    """One event stream; an event is within one chunk of the body, so that the chunks' frames need no reading."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.base: int | None = None
        """Events after this position count; none do until it is set."""
        self.seen: list[tuple[int, float]] = []
        self.open = asyncio.get_running_loop().create_future()
        self.lost = False
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to end it."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, which no stream should before the round has."""
        self.lost = True
        if not self.open.done():
            self.open.set_exception(exc or ConnectionResetError(self._received[:300]))

    def data_received(self, data: bytes) -> None:
        """Note each whole event."""
        now, self._received, end = time.perf_counter(), self._received + data, 0
        for frame in FRAME.finditer(self._received):
            end = frame.end()
            if not self.open.done():
                self.open.set_result(None)
            if self.base is not None and int(frame[1]) > self.base:
                self.seen.append((int(frame[1]), now))
        self._received = self._received[end:]

    def send(self, request: bytes) -> None:
        """Ask for the stream."""
        assert self._transport is not None
        self._transport.write(request)

    def close(self) -> None:
        """Leave."""
        if self._transport is not None:
            self._transport.close()


class Answered:
    """When the command of each fact of each run was due to be sent, and was answered."""

    def __init__(self, runs: int) -> None:
        self.due: list[list[float]] = [[] for _ in range(runs)]
        self.at: list[list[float]] = [[] for _ in range(runs)]


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    connections = await client.connect(CONNECTIONS)
    names = [f"p13-{number}-{leader}" for leader in range(max(options.streams, options.followers))]
    ids = await _submit(client, connections[0], names)
    for run_id in ids[1::2]:
        await client.told(connections[0], client.send(f"/v1/runs/{run_id}/pause", {}))
    paths = [(f"/v1/leaders/{name}/presence", run) for run, name in enumerate(names[: options.streams])]
    paths += [(f"/v1/runs/{run_id}/facts", run) for run, run_id in enumerate(ids[: options.followers])]
    answered = Answered(len(ids))
    streams: list[Following] = []
    try:
        for first in range(0, len(paths), OPENING):
            opening = [_follow(client, path, run) for path, run in paths[first : first + OPENING]]
            streams += await asyncio.gather(*opening)
        base = await client.position(connections[0])
        for stream in streams:
            stream.base = base
        with measured(service.pid) as cost:
            await _drive(client, connections, ids, answered, options)
            await _arrived(streams, answered)
    finally:
        for stream in streams:
            stream.close()
    return {**_figures(streams, answered, options.streams), "fact": cost.per(sum(map(len, answered.at)))}


def _figures(streams: list[Following], answered: Answered, leaders: int) -> Figures:
    begun, ended = min(min(each) for each in answered.due if each), max(max(each) for each in answered.at if each)
    return {
        "facts_per_s": round(sum(map(len, answered.at)) / (ended - begun), 1),
        "events": sum(len(stream.seen) for stream in streams),
        "dropped": _missing(streams, answered),
        "since_due": quantiles(_late(streams, answered.due)),
        "since_answered": quantiles(_late(streams, answered.at)),
        "leaders_since_due": quantiles(_late(streams[:leaders], answered.due)),
        "followers_since_due": quantiles(_late(streams[leaders:], answered.due)),
    }


async def _submit(client: Client, connection: Connection, names: Sequence[str]) -> list[str]:
    """The ids of one run for each of these leaders."""
    ids: list[str] = []
    for first in range(0, len(names), 1_000):
        wishes = [{"queue": "p13", "leader_id": name} for name in names[first : first + 1_000]]
        told = await client.told(connection, client.send("/v1/runs/batch", {"runs": wishes}))
        ids += [run["run_id"] for run in told["runs"]]
    return ids


async def _follow(client: Client, path: str, run: int) -> Following:
    """A stream that has said its first event."""
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(lambda: Following(run), HOST, client.port)
    stream.send(client.get(path).replace(b"\r\n\r\n", b"\r\naccept: text/event-stream\r\n\r\n"))
    async with asyncio.timeout(LIMIT_S):
        await stream.open
    return stream


async def _drive(
    client: Client, connections: list[Connection], ids: list[str], answered: Answered, options: argparse.Namespace
) -> None:
    """Pause and resume the runs in turn at the rate; each run is one connection's, so that its facts have an order."""
    begin, each_s = time.perf_counter(), sum(FACTS.values()) / len(FACTS) / options.rate

    async def part(connection: Connection, lane: int) -> None:
        for turn in range(int(options.seconds / each_s)):
            times, run = divmod(turn, len(ids))
            if run % len(connections) != lane:
                continue
            due = begin + turn * each_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            verb = "resume" if (run + times) % 2 else "pause"
            await client.told(connection, client.send(f"/v1/runs/{ids[run]}/{verb}", {}))
            answered.due[run] += [due] * FACTS[verb]
            answered.at[run] += [time.perf_counter()] * FACTS[verb]

    await side_by_side(connections, part)


async def _arrived(streams: Sequence[Following], answered: Answered) -> None:
    """Every stream has every fact of its run, once and in order.

    Raises:
        RuntimeError: facts are missing after a minute, came twice, or a stream was ended by the service.
    """
    over = time.perf_counter() + LIMIT_S
    while _missing(streams, answered) > 0 and time.perf_counter() < over:
        await asyncio.sleep(0.05)
    missing, lost = _missing(streams, answered), sum(stream.lost for stream in streams)
    wrong = sum(
        len(stream.seen) > len(answered.at[stream.run])
        or any(one >= other for (one, _), (other, _) in zip(stream.seen, stream.seen[1:], strict=False))
        for stream in streams
    )
    if missing or lost or wrong:
        message = f"{missing} events are missing, {lost} streams were ended, {wrong} were told too much or in disorder"
        raise RuntimeError(message)


def _missing(streams: Sequence[Following], answered: Answered) -> int:
    return sum(max(0, len(answered.at[stream.run]) - len(stream.seen)) for stream in streams)


def _late(streams: Sequence[Following], since: list[list[float]]) -> list[float]:
    """Seconds from each fact to each of its arrivals."""
    return [
        max(0.0, at - before)
        for stream in streams
        for (_, at), before in zip(stream.seen, since[stream.run], strict=True)
    ]


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    measure(
        "P13",
        "facts to streams of leaders and followers of runs",
        one_round,
        timers={"JACKLINE_LEADER_GRACE_S": str(GRACE_S)},
        streams=1_000,
        followers=1_000,
        rate=500,
        seconds=10,
    )
