"""Keys as the service lists them, and who it takes their bearer for.

What a key may do follows from its role and its bounds; the secret is told once, by the answer that made the key, and
never again. Instants are aware datetimes in UTC.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Key:
    """A key; the secret itself only in the answer that made it."""

    key_id: str
    name: str = ""
    role: str = ""
    key: str | None = None
    leader_ids: Any = None
    worker_ids: Any = None
    not_after: datetime | None = None
    created_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Who:
    """Who the service takes the caller for."""

    principal: str
    role: str
    tenant: str = "default"
    leader_ids: Any = None
    worker_ids: Any = None
