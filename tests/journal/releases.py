"""Keeps a journal as this version writes it: ``python -m tests.journal.releases NAME``.

``fixtures/NAME.sqlite3.gz`` is a small real journal with every stored name, registers and remembered answers, made once
from the code of a release and never again: what is in the field is not made anew either. Whatever comes later must
open it, verify it, fold it and bring it up to date.

Its runs are told by the domain's own decisions where they tell a name, and the rest is taken from the corpus.
"""

import asyncio
import gzip
import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from domain.run_facts import AttemptEnded, RunClosed, Work
from domain.values import Fact, Json, Moment, digest
from journal.commit import Context, Decision, Entry, Journal
from journal.mapper import DEFAULT_CODEC
from journal.opening import JOURNAL_NAME, open_journal
from journal.registers import ChunkWrite, PartialWrite, Write, running_digest
from journal.topics import TOPICS, aggregate_of, topic_of
from tests.journal.corpus_lines import stored_lines
from tests.projections.acts import NOON, Story

FIXTURES = Path(__file__).with_name("fixtures")
LIVES = (
    ("submit", "claim", "begin an effect", "succeed"),
    ("submit", "claim", "fail", "claim by id", "succeed"),
    ("submit", "claim", "wait for input", "answer", "claim", "succeed"),
    ("submit", "claim", "expire", "claim", "pause", "hand back"),
    ("submit to its leader", "reserve", "bind", "succeed", "judge"),
    ("submit", "reserve", "lapse", "reserve", "unreserve", "cancel"),
    ("submit", "claim", "cancel", "the cancel is due", "report the stop"),
    ("submit sliced", "claim", "end the slice", "hand back", "claim", "wait for a take-over", "resume"),
    ("submit",),
)
RUN = "0190f0c0-0000-7000-8000-{:012x}"
PRODUCER = (RUN.format(1), 1)
"""The attempt that wrote output and a partial."""
PARTIAL = Json(b'{"done": 3}')
FIRST = running_digest("", 0, "stdout", "hello\n")
SECOND = running_digest(FIRST, 1, "stderr", "é")
PRODUCED = Work(output_chunks=2, output_bytes=8, output_digest=SECOND, partials=1, partial_digest=digest(PARTIAL))
STREAM_OF = {"run": "run-{run}", "lease": "lease-{run}", "effect": "effects-{run}"}


def entries_of_lives() -> Iterator[list[Entry]]:
    """The facts of each life, as one decision."""
    for number, life in enumerate(LIVES, start=1):
        story = Story(RUN.format(number))
        for step, act in enumerate(life):
            story.then(act, at=step * 61.0)
        yield [Entry(recorded.stream, truthful(recorded.fact, story.run_id), story.run_id) for recorded in story.facts]


def truthful(fact: Fact, run_id: str) -> Fact:
    """The fact with the work that its attempt has in the registers, if it says what the attempt produced."""
    if not isinstance(fact, AttemptEnded | RunClosed):
        return fact
    return msgspec.structs.replace(fact, work=PRODUCED if (run_id, fact.fence) == PRODUCER else Work())


def entries_of_corpus(told: Iterable[type[Fact]]) -> list[Entry]:
    """One full fact for each name that no life told, in a stream of its kind."""
    known, run_id = {topic_of(fact_type) for fact_type in told}, RUN.format(len(LIVES))
    full = {topic: DEFAULT_CODEC.decode(topic, line).data for topic, line in stored_lines() if topic in TOPICS}
    entries = []
    for topic, fact in full.items():
        kind = aggregate_of(topic)
        if topic not in known:
            run_scoped = STREAM_OF.get(kind)
            stream = run_scoped.format(run=run_id) if run_scoped else f"{kind}-one"
            entries.append(Entry(stream, truthful(fact, run_id), run_id if run_scoped else None))
    return entries


def registers() -> list[Write]:
    """Two pieces of output and a partial."""
    run_id, fence = PRODUCER
    return [
        ChunkWrite(run_id, fence, 0, "stdout", "hello\n", FIRST),
        ChunkWrite(run_id, fence, 1, "stderr", "é", SECOND),
        PartialWrite(run_id, fence, PARTIAL),
    ]


async def record(journal: Journal, entries: list[Entry], command_id: str, writes: list[Write]) -> None:
    """Append a decision under a command id."""
    guards = {entry.stream: journal.store.head(entry.stream) for entry in entries}
    context = Context("default", "leader:ada", command_id=command_id, request_digest="digest")
    decision = Decision(entries, guards, b'{"ok":true}', writes)
    await journal.execute((), lambda _: decision, context, encode=bytes, decode=bytes)


async def fill(data_dir: Path) -> None:
    """A closed journal with everything that this version can store."""
    ids = itertools.count(1)
    seconds = itertools.count()
    journal = await open_journal(
        data_dir,
        lambda: Moment(NOON.after(next(seconds)).wall, 0.0),
        mint=lambda: f"0190f0c0-1111-7000-8000-{next(ids):012x}",
    )
    lives = list(entries_of_lives())
    rest = entries_of_corpus({type(entry.fact) for entries in lives for entry in entries})
    for number, entries in enumerate([*lives, rest], start=1):
        await record(journal, entries, f"command-{number}", registers() if number == 1 else [])
    await journal.close()


def main(name: str) -> None:
    """Write the fixture of this version, if it is not there yet."""
    target = FIXTURES / f"{name}.sqlite3.gz"
    if target.exists():
        sys.exit(f"{target.name} is there already, and stays what it is")
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(fill(Path(place)))
        target.write_bytes(gzip.compress((Path(place) / JOURNAL_NAME).read_bytes(), mtime=0))
    print("wrote", target.name)


if __name__ == "__main__":
    main(sys.argv[1])
