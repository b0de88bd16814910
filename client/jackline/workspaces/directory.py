"""Directories as workspaces: one below the worker's own place for each, with a record beside it.

    ROOT/WORKSPACE_ID/        the directory: what the run's command works in
    ROOT/WORKSPACE_ID.json    its record: which run, which identity, from which boot

The record is written first and the directory is only ever made where there is nothing, so that a worker which was
killed in between makes no second one and takes over nobody's. The identity is the device, the inode and the mark (see
`looking`). What is destroyed carries the mark of its record, lies in ROOT itself, and is reached without following
any link.

Failure: a directory that cannot be made is a `PlaceFailed`; one that cannot be seen is `watch_dropped`, never gone.
"""

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from jackline.decode import decode
from jackline.errors import Garbled
from jackline.worker import keeper
from jackline.workspaces import marks, removing
from jackline.workspaces.contract import DETAIL_MAX, Attached, NotOurs, Observation, PlaceFailed, WorkspaceRef
from jackline.workspaces.looking import OPEN, DirectoryIdentity, Pin, take

NAME: Final = "directory"
UNSAFE, EXISTS, NOT_MADE, UNSEEN = "UnsafeName", "DirectoryExists", "DirectoryNotMade", "DirectoryUnseen"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Record:
    """What is written down about one directory; once it is settled nobody stands on it any more."""

    workspace_id: str
    run_id: str
    mark: str
    identity: str | None = None
    boot_id: str = ""
    settled: bool = False
    unknown: bool = False


class DirectoryProvider:
    """Makes, knows again and destroys directories below one root."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root = root.resolve()
        removing.finish(self.root)

    @property
    def name(self) -> str:
        """Which kind."""
        return NAME

    def path(self, workspace_id: str) -> Path:
        """Where the workspace's directory is."""
        if not _SAFE.fullmatch(workspace_id):
            msg = f"the workspace id {workspace_id!r} cannot be a directory's name"
            raise PlaceFailed(UNSAFE, msg)
        return self.root / workspace_id

    async def place(self, workspace_id: str, spec: Any) -> None:
        """Make the directory, once."""
        run_id = str(spec.get("run_id", "")) if isinstance(spec, dict) else ""
        await asyncio.to_thread(self._place, workspace_id, run_id)

    async def attach(self, ref: WorkspaceRef) -> Attached:
        """The directory's identity, and where it is."""
        pinned = await asyncio.to_thread(self.pin, ref)
        if isinstance(pinned, Observation):
            raise PlaceFailed(pinned.reason or UNSEEN, pinned.message or "the directory cannot be seen")
        pinned.release()
        # From its end, where paths differ: a detail is bounded.
        details = {"path": str(pinned.path)[-DETAIL_MAX:], "host": socket.gethostname()[:DETAIL_MAX]}
        return Attached(str(pinned.identity), details=details)

    async def assert_(self, ref: WorkspaceRef) -> None:
        """Stamp the record as still wanted."""
        with contextlib.suppress(OSError):
            os.utime(self._record_path(ref.workspace_id))

    async def continuity(self, ref: WorkspaceRef) -> Observation:
        """What stands in the directory's place now."""
        return await asyncio.to_thread(self._continuity, ref)

    async def memory_fault(self, ref: WorkspaceRef) -> str | None:
        """None: a directory uses no memory."""
        return None

    async def teardown(self, ref: WorkspaceRef) -> bool:
        """Remove the directory and its record."""
        return await asyncio.to_thread(self._teardown, ref)

    def pin(self, ref: WorkspaceRef) -> Pin | Observation:
        """The directory held open, if it is still the one; else what is seen in its place."""
        record = self.record(ref.workspace_id)
        identity = DirectoryIdentity.of(ref.identity or (record.identity if record else None) or "")
        if identity is None:
            return Observation("watch_dropped", ref.identity, message="there is no record of this directory here")
        same_boot = record is None or record.boot_id == keeper.boot_id()
        return take(self.path(ref.workspace_id), identity, same_boot=same_boot)

    def record(self, workspace_id: str) -> Record | None:
        """What is written down about a workspace; None when nothing is."""
        return _record_of(keeper.read(self._record_path(workspace_id)))

    def records(self) -> Iterator[Record]:
        """Everything that is written down, the oldest first."""
        for path in sorted(self.root.glob("*.json"), key=_changed_at):
            record = _record_of(keeper.read(path))
            if record is not None and record.workspace_id == path.stem:
                yield record

    def note(self, record: Record) -> None:
        """Write a record down."""
        keeper.write(self._record_path(record.workspace_id), asdict(record))

    def forget(self, workspace_id: str) -> None:
        """Remove a record; its directory, if there is one, stays and is nobody's."""
        self._record_path(workspace_id).unlink(missing_ok=True)

    def _is_node_of(self, ref: WorkspaceRef) -> bool:
        """Whether what is in the workspace's place has its device and inode."""
        record = self.record(ref.workspace_id)
        identity = DirectoryIdentity.of(ref.identity or (record.identity if record else None) or "")
        with contextlib.suppress(OSError):
            seen = os.lstat(self.path(ref.workspace_id))
            return identity is not None and (seen.st_dev, seen.st_ino) == (identity.device, identity.inode)
        return False

    def _record_path(self, workspace_id: str) -> Path:
        path = self.path(workspace_id)
        return path.with_name(f"{path.name}.json")

    def _place(self, workspace_id: str, run_id: str) -> None:
        path = self.path(workspace_id)
        record = self.record(workspace_id)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if record is None:
                if os.path.lexists(path):
                    raise PlaceFailed(EXISTS, f"{path} is there already, and is not ours")
                record = Record(workspace_id, run_id, secrets.token_hex(16), boot_id=keeper.boot_id())
                self.note(record)
            if record.identity is None:
                self.note(replace(record, identity=_made(path, record.mark)))
        except OSError as error:
            raise PlaceFailed(NOT_MADE, f"{path} cannot be made: {error.strerror}") from error

    def _continuity(self, ref: WorkspaceRef) -> Observation:
        pinned = self.pin(ref)
        if isinstance(pinned, Observation):
            return pinned
        pinned.release()
        return Observation("present", str(pinned.identity))

    def _teardown(self, ref: WorkspaceRef) -> bool:
        path = self.path(ref.workspace_id)
        record = self.record(ref.workspace_id)
        if record is not None and record.identity is None and os.path.lexists(path):
            self._place(record.workspace_id, record.run_id)  # cut short between making it and marking it
        pinned = self.pin(ref)
        if isinstance(pinned, Observation) and pinned.kind == "watch_dropped" and self._is_node_of(ref):
            removing.open_up(path, str(path))  # closed by its own command: the mark decides once it can be read
            pinned = self.pin(ref)
        if isinstance(pinned, Pin):
            pinned.release()
            removing.remove(path)
        elif pinned.kind != "gone" and os.path.lexists(path):
            msg = f"{path} is left alone: {pinned.message or 'it does not carry our mark'}"
            raise NotOurs(msg)
        elif pinned.kind == "watch_dropped" and not _is_seen(self.root):
            return False
        self.forget(ref.workspace_id)
        return True


def _made(path: Path, mark: str) -> str:
    """The identity of a directory made where there is nothing, or made by us before and not yet marked."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    directory = os.open(path, OPEN)
    try:
        if marks.mark_of(directory) != mark:
            if os.listdir(directory):
                raise PlaceFailed(EXISTS, f"{path} is there already, and is not ours")
            marks.stamp(directory, mark)
        seen = os.fstat(directory)
        return str(DirectoryIdentity(seen.st_dev, seen.st_ino, mark))
    finally:
        os.close(directory)


def _record_of(document: Any) -> Record | None:
    try:
        return decode(Record, document)
    except Garbled:
        return None


def _changed_at(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _is_seen(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.lstat()
        return True
    return False
