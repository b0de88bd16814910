"""The composition root's clock, ids and chance: the only module of the service that reads or mints any of them.

``mono`` is the operating system's monotonic clock, which neither people nor time servers can set back, and which stands
still while the machine is suspended: a suspension of the machine is not charged to anybody, nor is one of the process
(``api/attention.py``). ``wall`` is UTC.

Ids are UUIDv7 as 32 hexadecimal digits: unique without asking anybody, and in the order of their making. Secrets come
from the operating system's generator.
"""

import secrets
import time
from datetime import UTC, datetime

from uuid_utils import uuid7

from domain.values import Moment

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def system_clock() -> Moment:
    """The present moment of this machine."""
    return Moment(datetime.now(UTC), time.monotonic())


def new_id() -> str:
    """A fresh id, for runs, reservations and whatever else is named in a url."""
    return uuid7().hex


def new_fact_id() -> str:
    """A fresh id in the written form of RFC 9562, for facts, journals and epochs."""
    return str(uuid7())


def new_secret(characters: int) -> str:
    """That many random letters and digits, 5.95 bits each."""
    return "".join(secrets.choice(ALPHABET) for _ in range(characters))
