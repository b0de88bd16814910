"""Damage to the files of a real journal, bit by bit, and whether anybody notices.

The journal is one that a real service wrote under load and was killed over, so that facts are in the file and in the
log beside it. A flip is *silent* when the start and the verification both find nothing and what the journal vouches for
(facts, and the output of attempts) is not what it told before. Remembered answers and partials are not in the chain: a
flip that changes only those is counted as *unvouched*.
"""

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from api.clock import new_fact_id
from journal.errors import JournalError
from journal.mapper import DEFAULT_CODEC
from journal.opening import JOURNAL_NAME, open_sqlite
from journal.reached import REACHED_NAME

FILES = (JOURNAL_NAME, f"{JOURNAL_NAME}-wal")
TOLD = {
    "facts": "SELECT position, originator_id, originator_version, topic, state, correlation_id FROM stored_events",
    "answers": "SELECT command_id, request_digest, first, last, answer FROM commands",
    "output": "SELECT run_id, fence, seq, stream, data FROM output_chunks",
    "partials": "SELECT run_id, fence, body, saved FROM partials",
    "output marks": "SELECT * FROM output_marks",
}

UNVOUCHED = {"answers", "partials"}


def copied(journal: Path, place: Path) -> Path:
    """A data directory with a copy of the journal's files."""
    place.mkdir()
    for name in (*FILES, REACHED_NAME):
        if (journal / name).exists():
            shutil.copy(journal / name, place / name)
    return place


def found(place: Path) -> tuple[str, int | None] | None:
    """What the start or the verification finds wrong, and the first bad position where it is known."""
    try:
        app = open_sqlite(place, DEFAULT_CODEC, new_fact_id)
    except JournalError as error:
        return str(error), error.fields().get("position")
    try:
        verdict = app.store.verify()
    finally:
        app.close()
    return None if verdict.ok else (str(verdict.problem), verdict.first_bad_position)


def told(place: Path) -> dict[str, Any]:
    """What the journal tells, table by table."""
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        connection.text_factory = bytes
        return {name: sorted(connection.execute(query), key=repr) for name, query in TOLD.items()}


def flipped(journal: Path, place: Path, flips: int, chance: random.Random) -> tuple[Counter[str], list[str]]:
    """How many of so many single flips were noticed, harmless or silent, and what each silent one changed."""
    sound = told(copied(journal, place / "sound"))
    counts: Counter[str] = Counter()
    silent: list[str] = []
    for number in range(flips):
        spoiled = copied(journal, place / f"flip-{number}")
        file = chance.choice([spoiled / name for name in FILES if (spoiled / name).exists()])
        bit = chance.randrange(file.stat().st_size * 8)
        flip(file, bit)
        if found(spoiled) is not None:
            counts["noticed"] += 1
        else:
            now = told(spoiled)
            changed = {name for name in TOLD if now[name] != sound[name]}
            counts["silent" if changed - UNVOUCHED else "unvouched" if changed else "harmless"] += 1
            silent += [f"bit {bit} of {file.name} changed the {name}" for name in changed - UNVOUCHED]
        shutil.rmtree(spoiled)
    return counts, silent


def flip(file: Path, bit: int) -> None:
    """Turn one bit of a file over."""
    with file.open("r+b") as content:
        content.seek(bit // 8)
        byte = content.read(1)[0]
        content.seek(bit // 8)
        content.write(bytes([byte ^ 1 << bit % 8]))
