"""A directory for what a parser is given as files: its own each time, and nothing is left of any."""

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def _root() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="jackline-parsers-")


@contextlib.contextmanager
def own_place() -> Iterator[Path]:
    """A fresh directory, removed at the end."""
    place = Path(tempfile.mkdtemp(dir=_root().name))
    try:
        yield place
    finally:
        shutil.rmtree(place)
