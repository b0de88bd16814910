"""Everything that the client reads, as functions of bytes: answers, frames and messages of a service that may be none,
and what a worker finds in its own place after a crash.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from datetime import date
from typing import Any, cast

import httpx

from jackline import Client, LeaseRef, Retry
from jackline.address import Address, find
from jackline.clock import SYSTEM
from jackline.decode import decode
from jackline.models import Claim
from jackline.presence import Presence
from jackline.sse import EventParser
from jackline.worker import keeper
from jackline.worker.command import _command_of, _cwd_of, ref_of
from jackline.worker.endings import Circumstances, Exit, ending
from jackline.worker.held import HeldLease
from jackline.worker.log import Log
from jackline.worker.places import Attempt, Home
from jackline.worker.processes import Identity
from jackline.worker.results import read_result
from jackline.worker.spool import Spool
from jackline.worker.staying import Staying
from jackline.worker.stream import WorkerStream
from jackline.workspaces import marks
from jackline.workspaces.directory import DirectoryProvider
from jackline.workspaces.looking import DirectoryIdentity
from tests.attack.places import own_place

LEASE = LeaseRef("r1", 1)
NOBODY = Address("http://127.0.0.1:1", "jlk_a_b_c")
STATUSES = (200, 201, 204, 302, 400, 404, 409, 422, 429, 500, 502, 503, 504, 599)
OPERATIONS: dict[str, Callable[[Client], Any]] = {
    "submit": lambda c: c.submit(1), "submit_many": lambda c: c.submit_many([{}]), "run": lambda c: c.run("r"),
    "runs": lambda c: c.runs(), "facts": lambda c: c.facts("r"), "why": lambda c: c.why("r"),
    "effects": lambda c: c.effects("r"), "cancel": lambda c: c.cancel("r"), "cancel_many": lambda c: c.cancel_many({}),
    "retry": lambda c: c.retry("r"), "leaders": lambda c: c.leaders(), "reassign": lambda c: c.reassign("r", "l", 1),
    "register": lambda c: c.register_worker("w"), "workers": lambda c: c.workers(),
    "claim": lambda c: c.claim("w", ["q"]), "claim_run": lambda c: c.claim_run("r", "w"),
    "reserve": lambda c: c.reserve("w", ["q"]),
    "bind": lambda c: c.bind("t", "w"), "heartbeat": lambda c: c.heartbeat("w", [LEASE]),
    "close": lambda c: c.close(LEASE, "succeeded"), "hand_back": lambda c: c.hand_back(LEASE),
    "claim_effect": lambda c: c.claim_effect(LEASE, "k", 1), "keys": lambda c: c.keys(), "whoami": lambda c: c.whoami(),
    "create_key": lambda c: c.create_key("n", "reader"), "timeline": lambda c: c.timeline("r"),
    "usage": lambda c: c.usage(day_from=date(2026, 1, 1)), "projections": lambda c: c.projections(),
    "output": lambda c: [chunk for chunk, _ in zip(c.output_so_far("r"), range(3), strict=False)],
    "workspace": lambda c: c.workspaces.show("w"), "workspaces": lambda c: c.workspaces.page(),
    "every workspace": lambda c: list(c.workspaces.list()), "show_leader": lambda c: c.show_leader("l"),
}  # fmt: skip
NAMES = sorted(OPERATIONS)
FEW = 3
"""Pages of a list that never ends which are read."""


class _Enough(Exception):
    """As many answers as one operation may need."""


def answer(data: bytes) -> None:
    """What is answered to one operation, with the status and the headers that the first bytes say."""
    asked, status, words = (*data[:3], 0, 0, 0)[:3]
    body, left = data[3:], [FEW]
    headers = [(name, _text(words, body)) for name in (b"Jackline-Position", b"Retry-After")]

    def answered(request: httpx.Request) -> httpx.Response:
        if not left[0]:
            raise _Enough
        left[0] -= 1
        return httpx.Response(STATUSES[status % len(STATUSES)], content=body, headers=headers)

    client = Client(NOBODY.url, "jlk_a_b_c", retry=Retry(patience_s=0.0))
    cast(Any, client.transport)._http = httpx.Client(transport=httpx.MockTransport(answered), base_url=NOBODY.url)
    with client, contextlib.suppress(_Enough):
        OPERATIONS[NAMES[asked % len(NAMES)]](client)


def _text(words: int, body: bytes) -> bytes:
    """A header: a number, or what the body begins with, as far as a header may hold it."""
    said = (b"7", b"\xb2", b"9" * 400, b"", body[:40])[words % 5]
    return bytes(byte for byte in said if byte >= 32 and byte != 127)


def sse(data: bytes) -> None:
    """The lines of an event stream, and what each frame of a leader's presence says."""
    presence = Presence(NOBODY, SYSTEM, "ada")
    parser = EventParser()
    for line in data.decode("utf-8", "replace").splitlines():
        whole = parser.feed(line)
        if whole is not None:
            presence._take(whole)


def frame(data: bytes) -> None:
    """A frame of a leader's presence, of the kind that the first byte says."""
    kinds = ("hello", "settled_while_away", "run.settled.v1", "other")
    kind, text = kinds[data[0] % len(kinds)] if data else "hello", data[1:].decode("utf-8", "replace")
    sse(f"event: {kind}\ndata: {' '.join(text.split())}\n\n".encode())


def stream_message(data: bytes) -> None:
    """A message on a worker's stream, and what it asks of the holder of a lease."""
    client, log = Client(NOBODY.url, NOBODY.key), Log(lambda *_: None)
    lease = HeldLease(LEASE, 60.0, SYSTEM)
    staying = Staying(cast(Any, client), "w1", SYSTEM, log)
    staying._leases.append(lease)
    stream = WorkerStream(NOBODY, "w1", SYSTEM, log)
    stream.on_push = staying.hear
    loop = LOOP
    waiting: asyncio.Future[Any] = loop.create_future()
    stream._waiting[1] = waiting
    stream._hear(data if data[:1] == b"\0" else data.decode("utf-8", "replace"))
    lease.take_instructions()
    if waiting.done() and waiting.exception() is None:
        staying.hear(waiting.result(), asked_at=0.0)


LOOP = asyncio.new_event_loop()


def claim(data: bytes) -> None:
    """A run that was claimed, and the command in its payload."""
    try:
        claimed = decode(Claim, json.loads(data))
    except (ValueError, RecursionError):
        return
    HeldLease.of(claimed, SYSTEM)
    _command_of(claimed, ())
    _cwd_of(claimed)


DOCUMENTS: dict[str, Callable[[Attempt], Any]] = {
    "attempt.json": ref_of,
    "delivery.json": lambda attempt: Spool(attempt).next_piece(final=True),
    "exit.json": lambda attempt: ending(Exit.of(attempt.load("exit.json")), Circumstances()),
    "keeper.json": lambda attempt: Identity.of(attempt.load("keeper.json")),
    "result.json": lambda attempt: read_result(attempt / "result.json"),
    "trust": lambda attempt: _keeper(attempt).read_trust(),
    "grace": lambda attempt: _keeper(attempt)._grace_s(),
    "worker.json": lambda attempt: _keeper(attempt)._alone_too_long(),
    "parked.json": lambda attempt: ending(Exit(exit_code=0), Circumstances(parked=attempt.load("parked.json"))),
}
FILES = sorted(DOCUMENTS)


def _keeper(attempt: Attempt) -> keeper.Keeper:
    attempt.save("spec.json", {"grace_s": 1.0, "command": ["true"]})
    return keeper.Keeper(attempt.path)


def attempt_file(data: bytes) -> None:
    """A file in the control directory of an attempt, drawn by the first byte."""
    name = FILES[data[0] % len(FILES)] if data else "attempt.json"
    with own_place() as place:
        (place / name).write_bytes(data[1:])
        (place / "stdout").write_bytes("a\u00e9".encode()[:2])
        DOCUMENTS[name](Attempt(place))


def worker_file(data: bytes) -> None:
    """What a worker is called, as it is written down in its place."""
    with own_place() as place:
        (place / "worker.json").write_bytes(data)
        home = Home(place)
        home.name(None, "otherwise")
        home.close()


def workspace_record(data: bytes) -> None:
    """What is written down about a directory that a run stands on."""
    with own_place() as place:
        provider = DirectoryProvider(place / "workspaces")
        provider._record_path("w1").write_bytes(data)
        list(provider.records())


def workspace_mark(data: bytes) -> None:
    """The mark of a directory in a file, and an identity that somebody else wrote."""
    DirectoryIdentity.of(data.decode("utf-8", "replace"))
    with own_place() as place:
        (place / marks.FILE).write_bytes(data)
        directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            marks.mark_of(directory)
        finally:
            os.close(directory)


def key_file(data: bytes) -> None:
    """The files by which a client finds its service: the first byte says which is another."""
    with own_place() as place:
        (place / "server.url").write_bytes(data[1:] if data[:1] == b"\0" else b"http://127.0.0.1:1")
        (place / "admin.key").write_bytes(b"jlk_a_b_c" if data[:1] == b"\0" else data[1:])
        found = find(None, None, place)
        httpx.Request("GET", found.url, headers={"Authorization": f"Bearer {found.key}"})


PARSERS = {
    parser.__name__: parser
    for parser in (
        answer, sse, frame, stream_message, claim, attempt_file, worker_file, workspace_record, workspace_mark,
        key_file,
    )
}  # fmt: skip
DEEP = b"[" * 5_000
RUN = json.dumps(
    {"run_id": "r", "state": "queued", "position": 1, "runs": [], "items": [], "next_cursor": None, "claims": [],
     "leases": [], "effects": [], "closes": [], "chunks": [], "next_after": None, "worker_id": "w"}
).encode()  # fmt: skip
ODD = (b"{}", b"[]", b"null", b"1", b"", DEEP, b'{"items": [1]}', b'{"retry_after_s": 1e999}', RUN, b"\xff")
SEEDS: dict[str, list[bytes]] = {
    "answer": [bytes([n, n % 3 * 4, n % 5]) + odd for n in range(len(NAMES)) for odd in ODD],
    "sse": [b"id: 1\nevent: hello\ndata: {}\n\n", b"data: " + DEEP + b"\n\n", b"id\nevent\ndata\n\n", b":\n\n"],
    "frame": [bytes([n]) + odd for n in range(4) for odd in (*ODD, b'{"runs": [{}]}', b'{"away_since": "x"}')],
    "stream_message": [
        *ODD, b'{"seq": [1], "leases": []}', b'{"seq": 1, "problem": {"status": "x"}}', b'{"seq": 1, "problem": []}',
        b'{"seq": 1, "problem": {"code": "worker_in_use", "status": 409}}', b'{"leases": {}}', b'{"leases": [{}]}',
        b'{"leases": [{"run_id": "r1", "fence": 1, "outcome": "lost", "instructions": [{"kind": "stop"}]}]}',
        b'{"seq": 1, "leases": [{"run_id": "r1", "fence": 1, "outcome": "renewed", "ttl_s": 1e308}]}',
    ],
    "claim": [*ODD, b'{"run_id": "r", "fence": 1, "attempt": 1, "lease_ttl_s": 1, "payload": {"command": [1]}}'],
    "attempt_file": [bytes([n]) + odd for n in range(len(FILES)) for odd in (*ODD, b'{"run_id": 1}', b"nan inf")],
    "worker_file": [*ODD, b'{"worker_id": "../x", "instance": 1}'],
    "workspace_record": [*ODD, b'{"workspace_id": 1, "run_id": "r", "mark": []}'],
    "workspace_mark": [b"dir:1:2:x", "dir:\u00b2:1:x".encode(), b"dir:" + b"9" * 5_000 + b":1:x", b"\xff"],
    "key_file": [b"\0http://[::1/", b"\0http://a:b", b"\0http://a:99999999", b"\1a\nb", b"\1\xff", b"\0http://\xff"],
}  # fmt: skip
