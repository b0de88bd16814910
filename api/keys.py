"""Bearer keys: who may knock, kept in a file of their own beside the journal, as hashes.

A key is written ``jlk_<id 8>_<secret 43>_<check 6>``, all of letters and digits: the prefix and the checksum (CRC-32)
let scanners recognise one that leaked, the secret has 256 bits. Kept are the id, SHA-256 over id and secret (a secret
of that size needs no slow hash), the role, the ids it may act as, and its end; the secret itself is shown once.

``DIR/keys.sqlite3`` and ``DIR/admin.key`` are readable by their owner alone. The first start, and any start that finds
no key at all, makes an admin key and writes it to ``DIR/admin.key``. A revocation is effective at once: every check
asks the table in memory, which this process alone changes, and open streams of the key are ended. The last admin key
that is live cannot be revoked: nobody could make another.

A key that is expired, revoked or unknown opens nothing, and costs its holder the same time.

A name may be given to several keys. Those that are bound alike are one principal, so that a key can be exchanged for a
new one in the middle of a repeat; under a name with other rights, commands are remembered apart from the first ones'.

The idempotency key under which a key was made is kept with it. A repeat makes no second key, and cannot be given the
first answer, since the secret is kept nowhere: it is refused with the id of the key that it made.
"""

import hashlib
import hmac
import os
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from api.clock import ALPHABET, new_secret
from api.problems import KeyMade, KeyUnknown, LastAdminKey
from commands.desk import Caller, Role
from domain.refusal import InvalidCommand
from journal.errors import IdempotencyMismatch, JournalError

PREFIX = "jlk"
ID_CHARS, SECRET_CHARS, CHECK_CHARS = 8, 43, 6
TENANT = "default"
KEYS_MAX = 10_000
"""Keys that open something at one time; revoked and expired ones do not count."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    key_id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, leader_ids TEXT, worker_ids TEXT,
    not_after TEXT, hash BLOB NOT NULL, created_at TEXT NOT NULL, created_by TEXT NOT NULL, revoked_at TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS made_by (
    command_id TEXT PRIMARY KEY, digest TEXT NOT NULL, key_id TEXT NOT NULL
) STRICT
"""
_DUMMY = hashlib.sha256(b"no key").digest()


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without its secret; null ids mean any of the tenant."""

    key_id: str
    name: str
    role: Role
    leader_ids: tuple[str, ...] | None = None
    worker_ids: tuple[str, ...] | None = None
    not_after: datetime | None = None
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None

    def shown(self) -> dict[str, Any]:
        """The key as it is listed."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "created_by"}

    def caller(self) -> Caller:
        """The principal that presents it."""
        return Caller(
            tenant=TENANT,
            principal=self.name,
            role=self.role,
            leaders=None if self.leader_ids is None else frozenset(self.leader_ids),
            workers=None if self.worker_ids is None else frozenset(self.worker_ids),
        )


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is to be made."""

    name: str
    role: Role
    leader_ids: tuple[str, ...] | None = None
    worker_ids: tuple[str, ...] | None = None
    not_after: datetime | None = None


class Command(msgspec.Struct, frozen=True):
    """Under which command id a key is asked for, and the digest of all that was asked."""

    command_id: str
    digest: str


class KeysUnusable(JournalError):
    """The file of the keys is no such file, or what it holds is no key."""

    code = "keys_unusable"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} cannot be read: {' '.join(problem.split())}",
            "restore it from a backup, or move it away: the service starts with a fresh admin key then, and no other",
            path=path,
            problem=problem,
        )


class Entry(msgspec.Struct):
    """A key as the process holds it."""

    key: Key
    digest: bytes
    caller: Caller
    identity: str
    """Whose commands are remembered as one: the name, unless it was given to a key with other rights before."""


class KeyRing:
    """The keys of one data directory."""

    def __init__(self, data_dir: Path | None, most: int = KEYS_MAX) -> None:
        self.most = most
        self.path = None if data_dir is None else data_dir / "keys.sqlite3"
        self._entries: dict[str, Entry] = {}
        self._identities: dict[tuple[object, ...], str] = {}
        self._names: set[str] = set()
        self.on_revoked: Callable[[str], None] = lambda _: None
        """Told the id of a key from now on worth nothing."""
        try:
            self._file = _open(self.path)
            for row in self._file.execute(f"SELECT {_COLUMNS}, hash FROM keys ORDER BY rowid"):  # noqa: S608
                self._hold(_key(row[:-1]), row[-1])
        except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # the disk, or who may use it: nothing is said of what is in the file
            raise KeysUnusable(str(self.path), str(error)) from error

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def find(self, token: str, now: datetime) -> Entry | None:
        """The entry that this token opens, if it opens any."""
        key_id, secret = _parts(token)
        entry = self._entries.get(key_id)
        digest = _digest(key_id, secret)
        if not hmac.compare_digest(digest, _DUMMY if entry is None else entry.digest) or entry is None:
            return None
        return entry if self.is_live(entry.key, now) else None

    def is_live(self, key: Key, now: datetime) -> bool:
        """Whether the key still opens what it opened, as of now."""
        entry = self._entries.get(key.key_id)
        if entry is None or entry.key.revoked_at is not None:
            return False
        return key.not_after is None or now < key.not_after

    def make(self, wanted: Wanted, by: str, now: datetime, *, command: Command | None = None) -> tuple[Key, str]:
        """A new key and its token, which is kept nowhere.

        Raises:
            InvalidCommand: as many keys as there may be open something already.
            KeyMade: this command made a key before, whatever became of it.
            IdempotencyMismatch: its idempotency key was used for another request.
        """
        if command is not None:
            self._require_first(command)
        live = sum(self.is_live(entry.key, now) for entry in self._entries.values())
        if live >= self.most:
            raise InvalidCommand(
                field="keys", value=live + 1, limit=f"at most {self.most} that are not revoked or expired"
            )
        key_id, secret = new_secret(ID_CHARS), new_secret(SECRET_CHARS)
        while key_id in self._entries:
            key_id = new_secret(ID_CHARS)
        key = Key(
            key_id=key_id,
            name=wanted.name,
            role=wanted.role,
            leader_ids=wanted.leader_ids,
            worker_ids=wanted.worker_ids,
            not_after=wanted.not_after,
            created_at=now,
            created_by=by,
        )
        self.keep(key, _digest(key_id, secret), command)
        return key, _token(key_id, secret)

    def _require_first(self, command: Command) -> None:
        select = "SELECT digest, key_id FROM made_by WHERE command_id = ?"
        row = self._file.execute(select, (command.command_id,)).fetchone()
        if row is not None:
            raise KeyMade(row[1]) if row[0] == command.digest else IdempotencyMismatch(command.command_id)

    def keep(self, key: Key, digest: bytes, command: Command | None = None) -> None:
        """Put a key down, durably and with the command that made it, and let it open what it opens from now on."""
        values = msgspec.to_builtins(key)
        row = [values[name] if name in _PLAIN else _encoded(values[name]) for name in Key.__struct_fields__]
        marks = ", ".join("?" * (len(row) + 1))
        with self._file:
            self._file.execute(f"INSERT INTO keys ({_COLUMNS}, hash) VALUES ({marks})", [*row, digest])  # noqa: S608
            if command is not None:
                made = (command.command_id, command.digest, key.key_id)
                self._file.execute("INSERT INTO made_by VALUES (?, ?, ?)", made)
        self._hold(key, digest)

    def _hold(self, key: Key, digest: bytes) -> None:
        known = self._entries.get(key.key_id)
        identity = self._identity(key) if known is None else known.identity
        self._entries[key.key_id] = Entry(key, digest, key.caller(), identity)

    def _identity(self, key: Key) -> str:
        rights = key.caller()
        alike = (key.name, key.role, rights.leaders, rights.workers)
        if alike not in self._identities:
            self._identities[alike] = f"{key.name}\0{key.key_id}" if key.name in self._names else key.name
        self._names.add(key.name)
        return self._identities[alike]

    def revoke(self, key_id: str, now: datetime) -> Key:
        """The key opens nothing from now on; a repeat changes nothing.

        Raises:
            KeyUnknown: there is none with this id.
            LastAdminKey: it is the only admin key that opens anything.
        """
        entry = self._entries.get(key_id)
        if entry is None:
            raise KeyUnknown(key_id)
        if self._live_admins(now) == {key_id}:
            raise LastAdminKey(key_id)
        if entry.key.revoked_at is None:
            with self._file:
                self._file.execute("UPDATE keys SET revoked_at = ? WHERE key_id = ?", (now.isoformat(), key_id))
            self._hold(msgspec.structs.replace(entry.key, revoked_at=now), entry.digest)
            self.on_revoked(key_id)
        return self._entries[key_id].key

    def _live_admins(self, now: datetime) -> set[str]:
        keys = (entry.key for entry in self._entries.values())
        return {key.key_id for key in keys if key.role == "admin" and self.is_live(key, now)}

    def all(self) -> Sequence[Key]:
        """Every key that was ever made, the oldest first."""
        return [entry.key for entry in self._entries.values()]


def first_admin_key(ring: KeyRing, data_dir: Path, now: datetime) -> Path | None:
    """Where the admin key was written, when there was no key at all and one was made; None otherwise.

    The file is written before the key is known to the ring: a crash in between leaves a file that the next start
    writes anew, and never a key that nobody has.
    """
    if len(ring):
        return None
    path = data_dir / "admin.key"
    key_id, secret = new_secret(ID_CHARS), new_secret(SECRET_CHARS)
    _write_private(path, _token(key_id, secret))
    key = Key(key_id=key_id, name="admin", role="admin", created_at=now, created_by="first start")
    ring.keep(key, _digest(key_id, secret))
    return path


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def _open(path: Path | None) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
    else:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    connection.executescript(_SCHEMA)
    connection.commit()
    return connection


_COLUMNS = ", ".join(Key.__struct_fields__)
_PLAIN = frozenset({"key_id", "name", "role", "not_after", "created_at", "created_by", "revoked_at"})


def _encoded(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _key(row: Sequence[Any]) -> Key:
    values = dict(zip(Key.__struct_fields__, row, strict=True))
    for name in ("leader_ids", "worker_ids"):
        values[name] = None if values[name] is None else msgspec.json.decode(values[name])
    return msgspec.convert(values, Key)


def _token(key_id: str, secret: str) -> str:
    body = f"{PREFIX}_{key_id}_{secret}"
    return f"{body}_{check_of(body)}"


def check_of(body: str) -> str:
    """The checksum of a token's body, as it stands at its end: CRC-32 in six letters and digits."""
    number, digits = zlib.crc32(body.encode("utf-8", "replace")), ""
    for _ in range(CHECK_CHARS):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits


def _parts(token: str) -> tuple[str, str]:
    """Id and secret of what may be a token; what is not one has neither, and is compared all the same."""
    parts = token.split("_")
    if len(parts) != 4 or parts[0] != PREFIX or len(token) > 80 or parts[3] != check_of(token[: token.rindex("_")]):
        return "", ""
    return parts[1], parts[2]


def _digest(key_id: str, secret: str) -> bytes:
    return hashlib.sha256(f"jackline key\0{key_id}\0{secret}".encode("utf-8", "replace")).digest()
