"""Stored names and stored bytes are for ever: the golden table and the frozen corpus may grow, never change."""

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from domain import effects, lease, presence, queue, run_facts, worker, workspace_facts
from domain.values import Fact
from journal.mapper import DEFAULT_CODEC
from journal.topics import FOLDS, TOPICS, aggregate_of, topic_of
from journal.upcast import UPCASTS
from tests.journal.corpus_lines import DIGESTS, digest_of, stored_lines

GOLDEN = Path(__file__).with_name("topics.txt")
NAME = re.compile(r"(run|lease|effect|worker|queue|presence|workspace)\.[a-z]+(_[a-z]+)*\.v[1-9][0-9]*")
UNIONS: dict[str, Any] = {
    "run": run_facts.RunFact,
    "lease": lease.LeaseFact,
    "effect": effects.EffectFact,
    "worker": worker.WorkerFact,
    "queue": queue.QueueFact,
    "presence": presence.PresenceFact,
    "workspace": workspace_facts.WorkspaceFact,
}
STREAM_OF = {"effect": "effects"}


def members(union: Any) -> list[type[Fact]]:
    return list(get_args(union)) or [union]


def test_a_name_that_was_ever_stored_is_known_for_ever() -> None:
    golden = GOLDEN.read_text().splitlines()

    forgotten = [line for line in golden if line not in TOPICS and line not in UPCASTS]

    assert [] == forgotten


def test_every_name_is_in_the_golden_table() -> None:
    golden = GOLDEN.read_text().splitlines()

    assert [] == [topic for topic in (*TOPICS, *UPCASTS) if topic not in golden], f"add these to {GOLDEN.name}"
    assert len(golden) == len(set(golden))


def test_every_name_says_aggregate_what_happened_and_version() -> None:
    assert [] == [topic for topic in TOPICS if not NAME.fullmatch(topic)]


@pytest.mark.parametrize("aggregate", UNIONS)
def test_every_fact_of_an_aggregate_has_a_name_under_it(aggregate: str) -> None:
    named = {fact_type for topic, fact_type in TOPICS.items() if aggregate == aggregate_of(topic)}

    assert named == set(members(UNIONS[aggregate]))


def test_the_names_that_others_rely_on_are_what_they_were() -> None:
    names: dict[str, type[Fact]] = {
        "run.submitted.v1": run_facts.RunSubmitted,
        "run.worker_timeout.v1": run_facts.WorkerTimeout,
        "run.partial_salvaged.v1": run_facts.PartialSalvaged,
        "run.settled.v1": run_facts.RunSettled,
        "lease.fence_bumped.v1": lease.FenceBumped,
        "lease.expired.v1": lease.LeaseExpired,
        "effect.intended.v1": effects.EffectIntended,
        "worker.registered.v1": worker.WorkerRegistered,
        "queue.configured.v1": queue.QueueConfigured,
        "presence.leader_gone.v1": presence.LeaderGone,
        "workspace.lost.v1": workspace_facts.WorkspaceLost,
    }

    assert list(names) == [topic_of(fact_type) for fact_type in names.values()]


def test_every_name_has_stored_bytes_in_the_corpus() -> None:
    kept = {topic for topic, _ in stored_lines()}

    missing = [topic for topic in (*TOPICS, *UPCASTS) if topic not in kept]

    assert [] == missing, "python -m tests.journal.corpus_lines adds them"


def test_no_stored_line_was_changed_or_taken_away() -> None:
    digests = [digest_of(topic, line) for topic, line in stored_lines()]

    assert sorted(DIGESTS.read_text().splitlines()) == sorted(digests)


def test_every_stored_line_is_read_as_a_fact_of_today() -> None:
    for topic, line in stored_lines():
        envelope = DEFAULT_CODEC.decode(topic, line)

        assert type(envelope.data) in TOPICS.names
        assert topic in UPCASTS or topic == topic_of(type(envelope.data))


def test_what_is_read_from_the_corpus_is_stored_as_the_same_again() -> None:
    for topic, line in stored_lines():
        envelope = DEFAULT_CODEC.decode(topic, line)
        current = topic_of(type(envelope.data))
        again = DEFAULT_CODEC.decode(current, DEFAULT_CODEC.encode(envelope.meta, envelope.data))

        assert (envelope.meta, envelope.data) == (again.meta, again.data)


@pytest.mark.parametrize("aggregate", UNIONS)
def test_the_fold_of_an_aggregate_accepts_every_stored_fact_of_it(aggregate: str) -> None:
    fold = FOLDS[STREAM_OF.get(aggregate, aggregate)]
    state = fold.initial
    facts = [
        DEFAULT_CODEC.decode(topic, line).data for topic, line in stored_lines() if aggregate == aggregate_of(topic)
    ]
    submitted_first = sorted(facts, key=lambda fact: type(fact).__name__ not in ("RunSubmitted", "WorkspacePlaced"))

    for version, fact in enumerate(submitted_first, start=1):
        state = fold.evolve(state, fact)
        assert version == state.version


def _data_of(line: bytes) -> Any:
    """The fact in a stored line, of either form."""
    stored = msgspec.json.decode(line)
    return stored["data"] if isinstance(stored, dict) else stored[1]


def test_a_full_line_has_every_field_of_its_fact() -> None:
    bare = [
        f"{topic}.{field.name}"
        for topic, line in dict(stored_lines()).items()
        for field in msgspec.structs.fields(TOPICS[topic])
        if topic in TOPICS and field.encode_name not in _data_of(line)
    ]

    assert [] == bare
