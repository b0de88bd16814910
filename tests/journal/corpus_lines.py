"""Adds what is missing to the frozen corpus: ``python -m tests.journal.corpus_lines``.

``corpus/<topic>.jsonl`` holds facts as they were stored, one to a line, for every name that ever was. It may grow and
never changes: whatever a journal in the field holds must stay readable. A new name gets two lines, made up from the
types of its fields: a sparse one with the required fields and a full one with all of them. ``corpus/digests.txt`` has
the SHA-256 of each line, so that a changed line is noticed.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from domain.values import Fact, Json
from journal.mapper import DEFAULT_CODEC, Meta
from journal.topics import TOPICS
from tests.journal.accounts import NOON

CORPUS = Path(__file__).with_name("corpus")
DIGESTS = CORPUS / "digests.txt"
SPARSE = Meta("0190f0c0-0000-7000-8000-000000000001", NOON)
FULL = Meta("0190f0c0-0000-7000-8000-000000000002", NOON, "cause", "run", "command", "leader:ada", "acme", "00-a-b-01")

PLAIN: dict[type[inspect.Type], Any] = {
    inspect.StrType: "text",
    inspect.IntType: 7,
    inspect.FloatType: 1.5,
    inspect.BoolType: True,
    inspect.NoneType: None,
    inspect.DateTimeType: "2026-01-01T12:00:00.25Z",
    inspect.RawType: Json(b'{"a": [1,  2.0]}'),
    inspect.AnyType: {"any": 1},
}


def sample(kind: inspect.Type, *, full: bool) -> Any:
    """A plain value of a type; of a union the last kind when full, so that optional values are there."""
    if type(kind) in PLAIN:
        return PLAIN[type(kind)]
    if isinstance(kind, inspect.LiteralType):
        return kind.values[-1 if full else 0]
    if isinstance(kind, inspect.UnionType):
        kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return sample(kinds[-1], full=full) if full or len(kinds) == len(kind.types) else None
    if isinstance(kind, inspect.StructType):
        return fields_of(kind, full=full)
    if isinstance(kind, inspect.DictType):
        return {sample(kind.key_type, full=full): sample(kind.value_type, full=full)} if full else {}
    if isinstance(kind, inspect.VarTupleType | inspect.ListType | inspect.FrozenSetType | inspect.SetType):
        return [sample(kind.item_type, full=full)] if full else []
    if isinstance(kind, inspect.TupleType):
        return [sample(one, full=full) for one in kind.item_types]
    message = f"no sample for {kind}"
    raise TypeError(message)


def fields_of(kind: inspect.StructType, *, full: bool) -> dict[str, Any]:
    """The fields of a struct: the required ones, or all."""
    return {field.encode_name: sample(field.type, full=full) for field in kind.fields if full or field.required} | (
        {kind.tag_field: kind.tag} if kind.tag_field else {}
    )


def lines_of(fact_type: type[Fact]) -> list[bytes]:
    """A sparse and a full fact as they are stored today."""
    kind = inspect.type_info(fact_type)
    assert isinstance(kind, inspect.StructType)
    lines = []
    for meta, full in ((SPARSE, False), (FULL, True)):
        fact = msgspec.json.decode(msgspec.json.encode(fields_of(kind, full=full)), type=fact_type)
        lines.append(DEFAULT_CODEC.encode(meta, fact))
    return lines


def stored_lines() -> list[tuple[str, bytes]]:
    """Every line of the corpus with its topic."""
    return [
        (path.name.removesuffix(".jsonl"), line)
        for path in sorted(CORPUS.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


def digest_of(topic: str, line: bytes) -> str:
    """What `digests.txt` says about a line."""
    return f"{hashlib.sha256(line).hexdigest()} {topic}"


def main() -> None:
    """Add lines for names that have none, and digests for lines that have none."""
    CORPUS.mkdir(exist_ok=True)
    for topic, fact_type in TOPICS.items():
        path = CORPUS / f"{topic}.jsonl"
        if not path.exists():
            path.write_bytes(b"\n".join(lines_of(fact_type)) + b"\n")
            print("added", path.name)
    known = DIGESTS.read_text().splitlines() if DIGESTS.exists() else []
    new = [digest for digest in (digest_of(*line) for line in stored_lines()) if digest not in known]
    DIGESTS.write_text("\n".join([*known, *new]) + "\n")
    print(len(new), "new digests")


if __name__ == "__main__":
    main()
