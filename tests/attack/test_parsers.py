"""Every parser under arbitrary bytes: it takes them or refuses them by name, and never anything else."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.attack import stored_parsers
from tests.attack.parsers import PARSERS, SEEDS, read

EXAMPLES = 200
DEAR = frozenset(stored_parsers.PARSERS) - {"at"} | {"kubeconfig", "page", "service_account", "setting", "attempt_file"}
EXAMPLES_DEAR = 40
"""Of parsers that make files or connections for each input; the soak tries them for as long as the others."""


def mutated(name: str) -> st.SearchStrategy[bytes]:
    """Bytes, and seeds of this parser that were cut, doubled, or altered in a place."""

    def alter(seed: bytes, place: int, piece: bytes, kept: bool) -> bytes:
        at = place % (len(seed) + 1)
        return seed[:at] + piece + (seed[at:] if kept else seed[at + len(piece) :])

    seeds = st.sampled_from(SEEDS.get(name, [b""]))
    some = st.binary(max_size=8) | st.sampled_from(
        [b"\0", b"\xff", b"\r\n\r\n", b'"', b"{", b"[" * 2_000, b"9" * 400, b"%"]
    )
    return st.binary(max_size=300) | st.builds(alter, seeds, st.integers(0, 500), some, st.booleans())


@pytest.mark.parametrize("name", PARSERS)
def test_whatever_it_reads_a_parser_takes_it_or_refuses_it_by_name(name: str) -> None:
    for seed in SEEDS.get(name, []):
        read(name, seed)

    @settings(max_examples=EXAMPLES_DEAR if name in DEAR else EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(data=mutated(name))
    @example(data=b"")
    def tried(data: bytes) -> None:
        read(name, data)

    tried()


def test_a_parser_that_fails_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        if b"{" in data:
            raise RecursionError

    monkeypatch.setitem(PARSERS, "body", broken)
    with pytest.raises(RecursionError):
        read("body", b"\0{}")


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("key", b"jlk_a_b_c", "unauthenticated"),
        ("idempotency_key", b"", "invalid"),
        ("cursor", b"AAAA", "invalid"),
        ("fence", b"9007199254740991", None),
        ("fence", b"9007199254740992", "invalid"),
        ("resuming", b"1.1", "invalid"),
        ("fact", b"\0" + b"[" * 100_000, "UndecodableFact"),
        ("topic", b"os.system", "UnknownTopic"),
        ("setting", b"\0\0", None),
        ("instance", b"a" * 129, "invalid"),
        ("at", b"9" * 400, "invalid"),
        ("at", b"115", None),
        ("import_file", b"\1" + b"[" * 5_000, "ExportDamaged"),
        ("import_file", b"\0" + b"[" * 5_000, "NotAnExport"),
        ("carried", b"\5keys.sqlite3\nbody", "NotAJournal"),
        ("carried", b"\4archive/../../x\nbody", "NotAJournal"),
        ("checkpoint", b"[" * 5_000, "CheckpointUnusable"),
        ("archive_block", b"\1x", "ArchiveUnusable"),
        ("archive_pointer", b"9" * 30 + b".0", "ArchiveUnusable"),
        ("keys_file", b"\2nobody", "KeysUnusable"),
        ("keys_file_whole", b"x" * 100, "KeysUnusable"),
        ("reached", b"9" * 5_000, None),
        ("journal_row", b"\3\2x", "UndecodableFact"),
        ("answer", b"\0\0\0[]", "Garbled"),
        ("answer", b"\0\0\1{}", "Garbled"),
        ("frame", b"\1[]", "Garbled"),
        ("sse", b"data: " + b"[" * 100_000 + b"\n\n", "Garbled"),
        ("stream_message", b'{"seq": [1], "leases": []}', None),
        ("key_file", b"\0http://[::1/", "Misplaced"),
        ("workspace_mark", "dir:\u00b2:1:x".encode(), None),
        ("pod_verdict", b"[" * 5_000, "Blind"),
        ("page", b"\0" + b"[" * 5_000, "Blind"),
        ("kubeconfig", b"contexts: 1\n", "NoAccess"),
        ("kubeconfig", SEEDS["kubeconfig"][0].replace(b"127.0.0.1", b"\xc2\xb2.\xef\xbf\xbd"), "NoAccess"),
    ],
)
def test_what_is_refused_is_refused_by_this_name(name: str, data: bytes, told: str | None) -> None:
    assert told == read(name, data)
