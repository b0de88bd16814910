"""Damage to the files of a real journal, bit by bit, and whether anybody notices.

The journal is one that a real service wrote under load and was killed over, so that facts are in the file and in the
log beside it. A flip is *silent* when the start and the verification both find nothing and what the journal vouches for
(acknowledged facts, and the output of attempts that have ended) is not what it told before. Remembered answers and
partials are not in the chain: a flip that changes only those is counted as *unvouched*.
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
    "output": "SELECT run_id, fence, seq, stream, data FROM output_chunks INDEXED BY sqlite_autoindex_output_chunks_1 "
    "ORDER BY run_id, fence, seq",
    "partials": "SELECT run_id, fence, body, saved FROM partials",
}
ENDS = (b"run.closed.v1", b"run.attempt_ended.v1")
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


def told(place: Path, upto: int, ended: set[tuple[bytes, int]] | None = None) -> dict[str, Any]:
    """What the journal tells, table by table: facts up to a position, and output of attempts that had ended by then."""
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        connection.text_factory = bytes
        found = {name: connection.execute(query).fetchall() for name, query in TOLD.items()}
    found["facts"] = sorted(row for row in found["facts"] if row[0] <= upto)
    ended = ended_in(found["facts"]) if ended is None else ended
    found["output"] = [row for row in found["output"] if (row[0], row[1]) in ended]
    return found


def ended_in(facts: list[Any]) -> set[tuple[bytes, int]]:
    """Run and fence of every attempt that has ended: its end vouches for its output."""
    return {
        (stream.removeprefix(b"run-"), DEFAULT_CODEC.decode(topic.decode(), state, stream.decode()).data.fence)
        for _, stream, _, topic, state, _ in facts
        if topic in ENDS
    }


def flipped(journal: Path, place: Path, flips: int, chance: random.Random) -> tuple[Counter[str], list[str]]:
    """How many of so many single flips were noticed, harmless or silent, and what each silent one changed."""
    upto = int((journal / REACHED_NAME).read_bytes().split()[0])
    sound = told(copied(journal, place / "sound"), upto)
    ended = ended_in(sound["facts"])
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
            now = told(spoiled, upto, ended)
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
