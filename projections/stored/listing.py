"""Asking for runs: which filters there are, in which orders a list comes, and how it is paged.

A page ends after ``limit`` runs, or earlier when its documents reach ``PAGE_BYTES``; ``next_cursor`` is null on the
last one. A cursor names the last run of its page and the value it was sorted by, so the next page goes on behind it
whatever was added or removed meanwhile. Sorted by what never changes (submission, priority, name, queue), every run
that matches throughout is given exactly once. Sorted by what may change (state, due and settled instants), a run that
changes between two pages may be given twice or not at all; one that does not change is given exactly once.

A cursor belongs to one tenant, one filter, one order and one life of the journal, and carries a digest of them: one
that was altered or belongs to another list is refused as ``invalid``. The digest is a check, not a secret: what a
cursor can reach is bounded by the caller's tenant and filter again, whatever it says.
"""

import base64
import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from domain.refusal import InvalidCommand
from domain.run_facts import State
from domain.values import Value

LIMIT_DEFAULT = 50
LIMIT_MAX = 500
"""Runs on one page, at most."""

PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of documents after which a page ends early, so that 500 results of 1 MiB are not one answer."""

TAGS_MAX = 16
SEARCH_MAX_CHARS = 200
CURSOR_MAX_CHARS = 2_000
STATES: tuple[str, ...] = State.__args__  # type: ignore[attr-defined]

_CHECK_BYTES = 12

_PAGE = "SELECT r.run_id, r.~, r.state, r.owner, r.fence, r.document FROM runs r WHERE"
_ONE_OF = "~ IN (SELECT value FROM json_each(?))"

SORTS = ("submitted_at", "priority", "due_at", "settled_at", "state", "queue", "name")
"""Columns a list may be sorted by, ``-`` before one for descending. A missing instant counts as the far future."""


class Listing(Value, frozen=True, kw_only=True):
    """Which runs are asked for, in which order, and which page of them."""

    state: tuple[str, ...] = ()
    queue: str | None = None
    leader_id: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    """Each ``key:value``; a run must have all of them."""
    q: str | None = None
    """Part of the run's id, name or tags, in either case."""
    sort: str = "-submitted_at"
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None
    leaders: tuple[str, ...] | None = None
    """Leader ids that the caller may see runs of; null for any."""
    owners: tuple[str, ...] | None = None
    """Worker ids that the caller may see runs of; null for any."""

    @property
    def column(self) -> str:
        """The column that the list is sorted by."""
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        """Whether the largest comes first."""
        return self.sort.startswith("-")


class Query(Value, frozen=True, kw_only=True):
    """A SELECT with its parameters."""

    statement: str
    parameters: tuple[Any, ...]


def check(listing: Listing) -> None:
    """Refuse a list outside its bounds, naming the field, the value and the limit."""
    if not 1 <= listing.limit <= LIMIT_MAX:
        raise InvalidCommand(field="limit", value=listing.limit, limit=f"between 1 and {LIMIT_MAX}")
    if listing.column not in SORTS:
        raise InvalidCommand(
            field="sort", value=listing.sort[:64], limit=f"one of {', '.join(SORTS)}, with or without '-' before it"
        )
    unknown = next((state for state in listing.state if state not in STATES), None)
    if unknown is not None:
        raise InvalidCommand(field="state", value=unknown[:64], limit=f"one of {', '.join(STATES)}")
    _check_texts(listing)


def _check_texts(listing: Listing) -> None:
    if len(listing.tags) > TAGS_MAX:
        raise InvalidCommand(field="tag", value=len(listing.tags), limit=f"given at most {TAGS_MAX} times")
    shapeless = next((tag for tag in listing.tags if ":" not in tag), None)
    if shapeless is not None:
        raise InvalidCommand(field="tag", value=shapeless[:64], limit="key:value")
    if listing.q is not None and len(listing.q) > SEARCH_MAX_CHARS:
        raise InvalidCommand(field="q", value=listing.q[:64], limit=f"at most {SEARCH_MAX_CHARS} characters")


def query(tenant: str, listing: Listing, epoch: str) -> Query:
    """The SELECT of one page and one run more: run id, sort value, state, owner, fence, document.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    check(listing)
    conditions = list(_conditions(tenant, listing))
    if listing.cursor is not None:
        beyond = "<" if listing.descending else ">"
        after = read_cursor(tenant, listing, epoch)
        conditions.append((f"(r.{listing.column}, r.run_id) {beyond} (?, ?)", after))
    direction = "DESC" if listing.descending else "ASC"
    parts = (
        _PAGE.replace("~", listing.column),
        " AND ".join(condition for condition, _ in conditions),
        f"ORDER BY r.{listing.column} {direction}, r.run_id {direction} LIMIT ?",
    )
    values = [value for _, given in conditions for value in given]
    return Query(statement=" ".join(parts), parameters=(*values, listing.limit + 1))


def _conditions(tenant: str, listing: Listing) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "r.tenant = ?", (tenant,)
    if listing.state:
        yield _one_of("r.state", listing.state)
    for column in ("queue", "leader_id", "owner"):
        wanted = getattr(listing, column)
        if wanted is not None:
            yield f"r.{column} = ?", (wanted,)
    for tag in listing.tags:
        yield "r.run_id IN (SELECT t.run_id FROM runs_tags t WHERE t.tenant = ? AND t.tag = ?)", (tenant, tag)
    if listing.q:
        yield "instr(r.search, ?) > 0", (listing.q.lower(),)
    if listing.leaders is not None:
        yield _one_of("r.leader_id", listing.leaders)
    if listing.owners is not None:
        yield _one_of("r.owner", listing.owners)


def _one_of(column: str, values: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    if len(values) == 1:  # an equation lets one index serve both the filter and the order
        return f"{column} = ?", values
    return _ONE_OF.replace("~", column), (msgspec.json.encode(values).decode(),)


def write_cursor(tenant: str, listing: Listing, epoch: str, last: tuple[Any, str]) -> str:
    """The opaque cursor of the page that ends with this sort value and run id."""
    place = msgspec.msgpack.encode(last)
    return base64.urlsafe_b64encode(_check_of(tenant, listing, epoch, place) + place).decode().rstrip("=")


def read_cursor(tenant: str, listing: Listing, epoch: str) -> tuple[Any, str]:
    """The sort value and run id behind which the page begins.

    Raises:
        InvalidCommand: the cursor was altered, or is of another tenant, filter, order or journal.
    """
    given = (listing.cursor or "")[: CURSOR_MAX_CHARS + 1]
    with contextlib.suppress(ValueError, msgspec.MsgspecError, RecursionError):
        place = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))[_CHECK_BYTES:]
        last = msgspec.msgpack.decode(place, type=tuple[Any, str])
        if given == write_cursor(tenant, listing, epoch, last):
            return last
    raise InvalidCommand(field="cursor", value=given[:64], limit="the next_cursor of a page of this same list")


def _check_of(tenant: str, listing: Listing, epoch: str, place: bytes) -> bytes:
    same_list = msgspec.structs.replace(listing, limit=LIMIT_DEFAULT, cursor=None)
    digest = hashlib.sha256(msgspec.msgpack.encode((tenant, epoch, same_list, place)))
    return digest.digest()[:_CHECK_BYTES]
