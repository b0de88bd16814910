"""Cursors: opaque texts that say behind which row a list goes on.

A cursor belongs to one list (``scope``: its name, tenant, filter and order, and the life of the journal) and carries a
digest of it: one that was altered or belongs to another list is refused as ``invalid``. The digest is a check, not a
secret: what a cursor can reach is bounded by the caller's tenant and filter again, whatever it says.
"""

import base64
import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from domain.refusal import InvalidCommand

CURSOR_MAX_CHARS = 2_000
LIMIT_DEFAULT = 50
LIMIT_MAX = 500
"""Rows on one page, at most."""

PAGE_BYTES = 8 * 1024 * 1024
"""Bytes after which a page ends early, so that 500 documents of 1 MiB are not one answer."""

_CHECK_BYTES = 12


def write_cursor(scope: Any, last: Sequence[Any]) -> str:
    """The opaque cursor of a page of this list that ends at this place."""
    place = msgspec.msgpack.encode(last)
    return base64.urlsafe_b64encode(_check_of(scope, place) + place).decode().rstrip("=")


def read_cursor(scope: Any, cursor: str, shape: Any) -> Any:
    """The place behind which the page begins, as a tuple of this shape.

    Raises:
        InvalidCommand: the cursor was altered, or is of another list.
    """
    given = cursor[: CURSOR_MAX_CHARS + 1]
    with contextlib.suppress(ValueError, msgspec.MsgspecError, RecursionError):
        place = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))[_CHECK_BYTES:]
        last = msgspec.msgpack.decode(place, type=shape)
        if given == write_cursor(scope, last) and all(_is_storable(value) for value in last):
            return last
    raise InvalidCommand(field="cursor", value=given[:64], limit="the next_cursor of a page of this same list")


def check_limit(limit: int) -> None:
    """Refuse a page that is longer or shorter than a page may be."""
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidCommand(field="limit", value=limit, limit=f"between 1 and {LIMIT_MAX}")


def _is_storable(value: Any) -> bool:
    # whoever knows the scope can make the digest, so a place that no list can have written is met here, not in a SELECT
    return isinstance(value, str) or (type(value) is int and value < 2**63)


def _check_of(scope: Any, place: bytes) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode((scope, place))).digest()[:_CHECK_BYTES]
