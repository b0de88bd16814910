"""Admission: who is calling, on which route, and whether that is allowed.

A caller shows its key as ``Authorization: Bearer <key>``. A browser cannot do that for an event stream or a WebSocket,
so it first exchanges its key for a *ticket*: good once, for ``TICKET_S`` seconds, in the query of one url. A key itself
is never accepted in a url, where logs and histories keep it. Keys that open nothing are answered 401, and 429 once too
many came from one address (``api/strangers.py``).

Every command may carry ``Idempotency-Key``; with tenant, principal, method and path it makes the command id, under
which the journal remembers the answer. The digest of the body travels along, so that the same key with another body is
refused. A fence is part of what is compared, in whichever place it was presented: a command that its holder sent is not
repeated by that holder's successor, who would be answered as if it had acted.

A worker's process may say which one it is, as ``Jackline-Instance`` (``domain/instance.py``).
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from msgspec import structs

from api.bodies import canonical_digest
from api.clock import new_secret
from api.keys import Entry, KeyRing
from api.problems import InvalidBody, RoleNotAllowed, TooManyFailures, Unauthenticated
from api.requests import SAFE_INTEGER
from api.roles import Roles
from api.strangers import Strangers, address_of
from commands.desk import Caller
from domain.submission import ID_MAX_CHARS
from domain.values import Moment
from journal.repeats import Fenceless

TICKET_S = 60.0
TICKET_CHARS = 43
TICKETS_MAX = 10_000
KNOWN_MAX = 10_000
"""Shown keys whose check is remembered, so that a busy caller's is not made anew for each request."""
IDEMPOTENCY_KEY_MAX_CHARS = 255

_BEARER = "bearer "
_TICKET = b"ticket="
_INSTANCE = re.compile(rb"[A-Za-z0-9._-]{1,%d}" % ID_MAX_CHARS)
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Tickets:
    """One-time passes for urls; the oldest are dropped beyond ``TICKETS_MAX``.

    A ticket is a secret, so it is in memory and nowhere else. A request that is repeated under its idempotency key gets
    the ticket that it got before for as long as that one lasts, also when it was used: a repeat opens nothing more.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[Entry, float]] = OrderedDict()
        self._issued: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    def issue(self, entry: Entry, now: Moment, command_id: str | None = None) -> tuple[str, float]:
        """A ticket for whoever holds this key, and for how many seconds it lasts: a fresh one, or the repeat's."""
        if command_id is None:
            return self._fresh(entry, now)
        asked = (entry.key.key_id, command_id)  # two keys may be one principal, and a ticket is for one key
        ticket, until = self._issued.pop(asked, ("", now.mono))
        if now.mono < until:
            self._issued[asked] = (ticket, until)
            return ticket, until - now.mono
        while len(self._issued) >= TICKETS_MAX:
            self._issued.popitem(last=False)
        ticket, lasts_s = self._fresh(entry, now)
        self._issued[asked] = (ticket, now.mono + lasts_s)
        return ticket, lasts_s

    def _fresh(self, entry: Entry, now: Moment) -> tuple[str, float]:
        ticket = new_secret(TICKET_CHARS)
        while len(self._held) >= TICKETS_MAX:
            self._held.popitem(last=False)
        self._held[ticket] = (entry, now.mono + TICKET_S)
        return ticket, TICKET_S

    def redeem(self, ticket: str, now: Moment) -> Entry | None:
        """What the ticket stands for, once and in time."""
        entry, until = self._held.pop(ticket, (None, 0.0))
        return entry if now.mono < until else None


class Gate:
    """Lets in those whose key opens the route."""

    def __init__(self, keys: KeyRing, tickets: Tickets, strangers: Strangers) -> None:
        self.keys = keys
        self.tickets = tickets
        self._strangers = strangers
        self._known: dict[bytes, Entry] = {}

    def admit(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes], now: Moment) -> Entry:
        """The entry of the key that was shown.

        Raises:
            Unauthenticated: there was none, or none that opens anything.
            TooManyFailures: it opens nothing either, and many like it came from the same address.
        """
        shown = headers.get(b"authorization")
        entry = self._by_ticket(scope, now) if shown is None else self._by_key(shown, now.wall)
        if entry is None:
            if shown is not None or _TICKET in scope["query_string"]:
                self._count(address_of(scope), now)
            raise Unauthenticated
        return entry

    def _count(self, address: str, now: Moment) -> None:
        wait_s = self._strangers.failed(address, now.mono)
        if wait_s > 0.0:
            raise TooManyFailures(self._strangers.limit, wait_s)

    def _by_key(self, shown: bytes, now: datetime) -> Entry | None:
        """The entry of this header's key; one that was checked before is found by digest, and asked for its end."""
        digest = hashlib.sha256(shown).digest()
        entry = self._known.get(digest)
        if entry is not None:
            return entry if self.keys.is_live(entry.key, now) else None
        text = shown.decode("latin-1")
        if text[: len(_BEARER)].lower() != _BEARER:
            return None
        entry = self.keys.find(text[len(_BEARER) :].strip(), now)
        if entry is not None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[digest] = entry
        return entry

    def _by_ticket(self, scope: Mapping[str, Any], now: Moment) -> Entry | None:
        query: bytes = scope["query_string"]
        if _TICKET not in query:
            return None
        given = parse_qs(query.decode("latin-1")).get("ticket", [])
        entry = self.tickets.redeem(given[0], now) if given else None
        return entry if entry is not None and self.keys.is_live(entry.key, now.wall) else None


def require_role(entry: Entry, roles: Roles, route: str) -> None:
    """Refuse a role that may not use the route, naming those that may."""
    if entry.key.role not in roles:
        raise RoleNotAllowed(principal=entry.key.name, role=entry.key.role, route=route, allowed=sorted(roles, key=str))


class Asked(NamedTuple):
    """What one request says: its body as plain JSON, and the fence that it carries as a header beside it."""

    body: Any
    fence: int | None = None


def fence_of(headers: Mapping[bytes, bytes]) -> int | None:
    """The fence that is presented as a header; None when there is none.

    Raises:
        InvalidBody: it is no number.
    """
    header = headers.get(b"jackline-fence")
    if header is None:
        return None
    if not (header.isdigit() and len(header) <= 16 and int(header) <= SAFE_INTEGER):
        raise InvalidBody([{"field": "Jackline-Fence", "limit": f"a whole number up to {SAFE_INTEGER}"}])
    return int(header)


def caller_of(entry: Entry, scope: Mapping[str, Any], headers: Mapping[bytes, bytes], asked: Asked) -> Caller:
    """The principal with what this one request adds to it: its command id, the digest of what it says, its trace."""
    shown = headers.get(b"idempotency-key")
    trace = headers.get(b"traceparent")
    if trace is not None and not _TRACE.fullmatch(trace):
        trace = None
    caller = acting(entry.caller, headers)
    if shown is None and trace is None:
        return caller
    command_id = digest = without = None
    if shown is not None:
        key = _checked_key(shown)
        path = scope.get("raw_path") or scope["path"].encode()
        parts = (caller.tenant, entry.identity, scope["method"], path.decode("latin-1"), key)
        command_id = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        digest = canonical_digest(asked.body)
        if asked.fence is not None:
            digest, without = canonical_digest({**asked.body, "fence": asked.fence}), digest
    return Caller(
        tenant=caller.tenant,
        principal=caller.principal,
        role=caller.role,
        leaders=caller.leaders,
        workers=caller.workers,
        instance=caller.instance,
        command_id=command_id,
        request_digest=digest,
        fenceless=None if asked.fence is None or without is None else Fenceless(without, asked.fence),
        traceparent=None if trace is None else trace.decode(),
    )


def acting(caller: Caller, headers: Mapping[bytes, bytes]) -> Caller:
    """The caller as the process that it says it is.

    Raises:
        InvalidBody: what it says is no id.
    """
    shown = headers.get(b"jackline-instance")
    if shown is None:
        return caller
    if _INSTANCE.fullmatch(shown) is None:
        limit = f"1 to {ID_MAX_CHARS} characters of [A-Za-z0-9._-]"
        raise InvalidBody([{"field": "Jackline-Instance", "limit": limit}])
    return structs.replace(caller, instance=shown.decode())


def _checked_key(shown: bytes) -> str:
    key = shown.decode("latin-1")
    if not 1 <= len(key) <= IDEMPOTENCY_KEY_MAX_CHARS:
        limit = f"1 to {IDEMPOTENCY_KEY_MAX_CHARS} characters"
        raise InvalidBody([{"field": "Idempotency-Key", "limit": limit}])
    return key
