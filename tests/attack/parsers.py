"""Everything that reads what others wrote, as functions of bytes: each returns, or refuses by name; nothing else.

The table is what the suite tries with Hypothesis and `tools/fuzz.py` with a coverage-guided fuzzer: here what is asked
of the service, bodies and queries found by looking, so that a model that comes later is tried as well; beside it what
reads files (`stored_parsers`), what the client and its workers read (`client_parsers`), and what the watcher of a
cluster reads (`cluster_parsers`).
"""

import asyncio
import base64
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel
from uvicorn import Config
from uvicorn.server import ServerState

from api import requests
from api.admission import Asked, Gate, Tickets, acting, caller_of
from api.app import endpoints
from api.bodies import Reader
from api.calls import Call, Tree, _read_query
from api.keys import Entry, KeyRing, Wanted
from api.presence import _is_goodbye
from api.problems import STATUS
from api.protocol import BoundedHttp
from api.settings import PREFIX, InvalidSetting, Settings, load
from api.strangers import Strangers
from api.views import place_of, resume_at
from domain.refusal import Refusal
from domain.values import Moment
from jackline.errors import JacklineError, Problem
from journal.errors import JournalError, UndecodableFact, UnknownTopic
from journal.mapper import Codec
from journal.topics import TOPICS
from projections.stored.listing import Listing, read_cursor
from tests.attack import client_parsers, cluster_parsers, stored_parsers
from watchers.kubernetes.credentials import NoAccess
from watchers.kubernetes.server import Blind, Expired, Refused

NOW = Moment(datetime(2026, 1, 1, tzinfo=UTC), 0.0)
MANY = 1_000_000
OLD = "run.ended.v0"
ENVELOPE = b'{"meta":{"fact_id":"f","recorded_at":"2026-01-01T00:00:00Z"},"data":{'


class Unrefused(Exception):
    """A refusal without a code that can be sent."""


def _ring() -> tuple[KeyRing, str]:
    ring = KeyRing(None)
    return ring, ring.make(Wanted(name="any", role="admin"), "test", NOW.wall)[1]


RING, TOKEN = _ring()
GATE = Gate(RING, Tickets(), Strangers(MANY))


def _entry() -> Entry:
    entry = RING.find(TOKEN, NOW.wall)
    assert entry is not None
    return entry


ENTRY = _entry()


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in sorted(base.__subclasses__(), key=lambda model: model.__qualname__):
        yield model
        yield from _models(model)


BODIES = [Reader(model) for model in _models(requests.Body)]
QUERIES = list(_models(requests.Query))
CODEC = Codec(TOPICS, {OLD: ("run.settled.v1", lambda fields: {**fields, "state": "failed"})})
NAMES = [*sorted(TOPICS), OLD, "no.such.v1"]
TREE = Tree()
for _route in endpoints():
    TREE.add(_route.verb, _route.path, _route)


def key(data: bytes) -> None:
    """A key that is shown, alone and in the head."""
    RING.find(data.decode("latin-1"), NOW.wall)
    GATE.admit({"query_string": b"", "client": ("127.0.0.1", 1)}, {b"authorization": b"Bearer " + data}, NOW)


def ticket(data: bytes) -> None:
    """The query of a url that may hold a ticket."""
    GATE.admit({"query_string": data, "client": None}, {}, NOW)


def idempotency_key(data: bytes) -> None:
    """What a command is remembered by, and the trace that it belongs to."""
    half = len(data) // 2
    scope = {"method": "POST", "path": "/v1/runs", "raw_path": data[half:]}
    caller_of(ENTRY, scope, {b"idempotency-key": data[:half], b"traceparent": data[half:]}, Asked({"a": 1}))


def cursor(data: bytes) -> None:
    """The place in a list."""
    read_cursor("default", Listing(cursor=data.decode("utf-8", "replace")), "epoch")


def resuming(data: bytes) -> None:
    """The place in a stream."""
    call = Call({"type": "http", "headers": [(b"last-event-id", data)]})
    place_of(data.decode("utf-8", "replace"), "after")
    resume_at(call, 0)


def instance(data: bytes) -> None:
    """Which process a worker says that it is."""
    acting(ENTRY.caller, {b"jackline-instance": data})


def fence(data: bytes) -> None:
    """The fence in the head of a request."""
    call = Call({"type": "http", "headers": []})
    call.head = {b"jackline-fence": data}
    call.fence(requests.HandBack())


def query(data: bytes) -> None:
    """The query of every route that takes one."""
    for model in QUERIES:
        with suppress(Refusal):
            _read_query(model, data)


def body(data: bytes) -> None:
    """The body of one route, drawn by the first byte."""
    BODIES[data[0] % len(BODIES) if data else 0].read(data[1:])


def goodbye(data: bytes) -> None:
    """What a leader says on its socket."""
    _is_goodbye(data)


def fact(data: bytes) -> None:
    """A stored fact under one of the names, drawn by the first byte; whole, or from its data on."""
    name, rest = NAMES[data[0] % len(NAMES)] if data else OLD, data[1:]
    with suppress(UndecodableFact, UnknownTopic):
        CODEC.decode(name, rest)
    CODEC.decode(name, ENVELOPE + rest)


def topic(data: bytes) -> None:
    """A stored name."""
    CODEC.decode(data.decode("utf-8", "replace"), b"{}")


def setting(data: bytes) -> None:
    """A variable of the environment, drawn by the first byte."""
    names = sorted(Settings.model_fields)
    name = names[data[0] % len(names)] if data else "port"
    text = data[1:].decode("latin-1").replace("\0", "")
    with patch.dict(os.environ, {PREFIX + name.upper(): text}):
        load()


def path(data: bytes) -> None:
    """The path of a request."""
    for method in ("GET", "POST", "WS"):
        with suppress(Refusal):
            TREE.find(method, b"/" + data)


class _Line(asyncio.Transport):
    """The other end of a connection, which takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.said = bytearray()
        self.closed = False
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_protocol(self) -> Any:
        return self.protocol

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


CONFIG = Config(_app, lifespan="off", log_config=None, access_log=False, ws="none")
CONFIG.load()
LOOP = asyncio.new_event_loop()
PARTS = 3


def http(data: bytes) -> None:
    """What is said on a connection, in a few parts."""
    line = _Line()
    protocol = line.protocol = BoundedHttp(CONFIG, ServerState(), {}, _loop=LOOP)
    protocol.connection_made(line)
    step = len(data) // PARTS + 1
    for start in range(0, len(data), step):
        if not line.closed:
            protocol.data_received(data[start : start + step])
            LOOP.run_until_complete(asyncio.sleep(0))
    protocol.connection_lost(None)
    LOOP.run_until_complete(asyncio.sleep(0))


PARSERS: dict[str, Callable[[bytes], None]] = {
    "key": key, "ticket": ticket, "idempotency_key": idempotency_key, "cursor": cursor, "fence": fence,
    "resuming": resuming, "query": query, "body": body, "goodbye": goodbye, "fact": fact, "topic": topic,
    "setting": setting, "path": path, "http": http, "instance": instance,
    **stored_parsers.PARSERS, **client_parsers.PARSERS, **cluster_parsers.PARSERS,
}  # fmt: skip
SEEDS: dict[str, list[bytes]] = {
    **stored_parsers.SEEDS,
    **client_parsers.SEEDS,
    **cluster_parsers.SEEDS,
    "instance": [b"a1", b"a" * 129, b"\xff"],
    "key": [TOKEN.encode(), TOKEN.encode()[:-1], b"jlk_a_b_c", b"____"],
    "ticket": [b"ticket=abc", b"ticket=&ticket=%ff", b"ticket=%"],
    "cursor": [b"AAAA", b"gqFhoWI", base64.urlsafe_b64encode(b"x" * 12 + b"\x92" + b"\x91" * 1_450)],
    "resuming": [b"12", b"1.2", b"1" * 17 + b".1", b".", b"\xd9\xa1.\xd9\xa2"],
    "fence": [b"1", b"9007199254740992", b"-1", b"\xb2"],
    "query": [b"limit=1&cursor=x&tag=a:b", b"min_position=9007199254740992&after=1.2", b"wait_s=nan", b"until=settled"],
    "body": [bytes([n]) + said for n in range(len(BODIES)) for said in (b"{}", b'{"fence": 1e999}', b'{"payload": ')],
    "goodbye": [b'{"kind": "goodbye"}', b"[" * 5_000, b'"\\ud800"'],
    "fact": [bytes([n]) + said for n in range(len(NAMES)) for said in (b"}}", b'"a":' + b"[" * 5_000, b'"at":"x"}}')],
    "setting": [
        bytes([n]) + said for n in range(len(Settings.model_fields)) for said in (b"nan", b"-1", b"{", b"1e999")
    ],
    "path": [b"v1/runs/a/effects/b%2Fc/fail", b"v1/runs//", b"%", b"v1/runs/%ff%00"],
    "http": [
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 30,
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n",
    ],
}


NAMED = (JournalError, InvalidSetting, JacklineError, NoAccess, Blind, Expired, Refused)
"""What says by its very class what is wrong, beside the refusals that are answered."""


def read(name: str, data: bytes) -> str | None:
    """The code by which this parser refuses the data; None when it takes it.

    Raises:
        Exception: anything that is no refusal with a code of the table: the fault that is looked for.
    """
    try:
        PARSERS[name](data)
    except Problem as refusal:
        return refusal.code
    except NAMED as refusal:
        return type(refusal).__name__
    except Refusal as refusal:
        if refusal.code not in STATUS:
            raise Unrefused(refusal.code) from refusal
        return refusal.code
    return None
