"""A layer under SQLite, in the process under test: it writes down what goes to the disk, and fails when it is told to.

SQLite does all its input and output through a *VFS*, a table of functions. This one is the platform's own with three
functions of every open file replaced: write, truncate and sync pass through here and then on. It is made with `ctypes`
in the very library that Python's `sqlite3` uses, so it needs no compiler, no tracer and no second SQLite, and what is
tried is the service's own recorder. It must be installed before the first connection.

`Recorder` keeps every operation with its bytes, in order. `Faults` is told by a small shared file, so that a test can
arm it and repair the disk while the service runs: the n-th operation of a kind fails once, or from then on until it is
disarmed, with the error that SQLite gives for EIO, ENOSPC or EROFS.
"""

import _sqlite3
import ctypes
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

Kind = Literal["write", "truncate", "sync"]
KINDS: tuple[Kind, ...] = ("write", "truncate", "sync")
OK = 0
IOERR_WRITE, IOERR_FSYNC, FULL = 778, 1034, 13
NAME = b"jackline-tried"
MAIN_DB, WAL = 0x100, 0x80000

_POINTER, _INT, _WIDE = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_OPEN = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)
_WRITE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _WIDE)
_TRUNCATE = ctypes.CFUNCTYPE(_INT, _POINTER, _WIDE)
_SYNC = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", _INT),
        ("file_bytes", _INT),
        ("path_max", _INT),
        ("next", _POINTER),
        ("name", ctypes.c_char_p),
        ("data", _POINTER),
        ("open", _OPEN),
        ("rest", _POINTER * 15),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", _INT),
        ("close", _POINTER),
        ("read", _POINTER),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        ("rest", _POINTER * 13),
    )


class Watcher(Protocol):
    """Looks at every operation before it happens."""

    def __call__(self, kind: Kind, path: str, offset: int, content: bytes) -> int:
        """SQLite's code to fail with, or `OK` to let it happen; a truncation's new size is its offset."""


_kept: list[Any] = []
"""What SQLite keeps pointers to lives as long as the process."""


def install(watcher: Watcher) -> None:
    """Put this layer under every connection that is opened from now on; journals and their logs pass by the watcher."""
    library = ctypes.CDLL(_sqlite3.__file__)
    find, register = library.sqlite3_vfs_find, library.sqlite3_vfs_register
    find.restype, find.argtypes = ctypes.POINTER(_Vfs), [ctypes.c_char_p]
    register.restype, register.argtypes = _INT, [ctypes.POINTER(_Vfs), _INT]
    platform = find(None)
    layer = _Vfs()
    ctypes.memmove(ctypes.byref(layer), platform, ctypes.sizeof(_Vfs))
    layer.name = NAME
    layer.open = _OPEN(_opening(platform, watcher))
    _kept.append((library, platform, layer))
    assert register(ctypes.byref(layer), 1) == OK


def _opening(platform: Any, watcher: Watcher) -> Callable[..., int]:
    go_on = platform.contents.open
    layered = _Layered(watcher)

    def open_file(_: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        code = int(go_on(ctypes.cast(platform, _POINTER), name, file, flags, out))
        if code == OK and name and flags & (MAIN_DB | WAL):
            layered.put_on(file, ctypes.string_at(name).decode())
        return code

    return open_file


class _Layered:
    """Open files whose operations pass by the watcher; files are known by their address."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._paths: dict[int, str] = {}
        self._tables: dict[int, _Methods] = {}

    def put_on(self, file: int, path: str) -> None:
        """Replace an open file's functions."""
        self._paths[file] = path
        place = ctypes.cast(file, ctypes.POINTER(_POINTER))
        below = place.contents.value
        assert below is not None
        if below not in self._tables:
            self._tables[below] = self._table(below)
        place.contents.value = ctypes.addressof(self._tables[below])

    def _table(self, below: int) -> _Methods:
        methods = _Methods.from_address(below)
        table = _Methods()
        ctypes.memmove(ctypes.byref(table), below, ctypes.sizeof(_Methods))
        write, truncate, sync = methods.write, methods.truncate, methods.sync
        paths, watcher = self._paths, self._watcher

        def writing(file: int, content: int, size: int, offset: int) -> int:
            code = watcher("write", paths[file], offset, ctypes.string_at(content, size))
            return code or int(write(file, content, size, offset))

        def truncating(file: int, size: int) -> int:
            return watcher("truncate", paths[file], size, b"") or int(truncate(file, size))

        def syncing(file: int, flags: int) -> int:
            return watcher("sync", paths[file], 0, b"") or int(sync(file, flags))

        table.write, table.truncate, table.sync = _WRITE(writing), _TRUNCATE(truncating), _SYNC(syncing)
        return table


Step = tuple[str, str, int, bytes]
"""Kind, file name, offset and content of an operation; an acknowledgement is `("told", what, 0, b"")`."""


class Recorder:
    """Every operation on the disk and every acknowledgement, in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(self, kind: Kind, path: str, offset: int, content: bytes) -> int:
        """Write it down; nothing fails."""
        self.steps.append((kind, Path(path).name, offset, content))
        return OK

    def told(self, what: str) -> None:
        """Somebody was told that this is durable."""
        self.steps.append(("told", what, 0, b""))


class Faults:
    """Errors on demand, by a shared file that test and service both map."""

    FORM = struct.Struct("=qqqqqd")
    """The kind of operation that fails (its number in `KINDS` plus 1; 0 for none), how many pass before, whether all
    later ones fail as well, the code, how many have failed, and by how many seconds the wall clock is wrong."""

    def __init__(self, place: Path) -> None:
        if not place.exists():
            place.write_bytes(bytes(self.FORM.size))
        with place.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), self.FORM.size)

    def arm(self, kind: Kind, after: int, code: int, *, for_good: bool = False) -> None:
        """From now on: this many operations of the kind on the journal pass, and the next one fails."""
        self._put(KINDS.index(kind) + 1, after, int(for_good), code, 0, self.wall_s)

    def repair(self) -> int:
        """The disk is sound again; how often it has failed."""
        failed = self._get()[4]
        self._put(0, 0, 0, 0, 0, self.wall_s)
        return int(failed)

    @property
    def failed(self) -> int:
        """How often the disk has failed since it was armed."""
        return int(self._get()[4])

    @property
    def wall_s(self) -> float:
        """By how many seconds the wall clock is wrong."""
        return float(self._get()[5])

    @wall_s.setter
    def wall_s(self, seconds: float) -> None:
        self._put(*self._get()[:5], seconds)

    def __call__(self, kind: Kind, path: str, offset: int, content: bytes) -> int:
        """Fail when it is time to."""
        armed, after, for_good, code, failed, wall_s = self._get()
        if armed != KINDS.index(kind) + 1 or "journal.sqlite3" not in path:
            return OK
        if after > 0:
            self._put(armed, after - 1, for_good, code, failed, wall_s)
            return OK
        self._put(armed if for_good else 0, 0, for_good, code, failed + 1, wall_s)
        return int(code)

    def _get(self) -> tuple[Any, ...]:
        return self.FORM.unpack_from(self._shared)

    def _put(self, *values: Any) -> None:
        self.FORM.pack_into(self._shared, 0, *values)
