"""Facts of a run are read until there are enough bytes of them, so that a bounded page is a bounded read."""

from pathlib import Path

import pytest

from tests.journal.accounts import append, application, deciding, stored


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_facts_of_a_run_are_read_until_their_bytes_are_enough(kind: str, tmp_path: Path) -> None:
    app = application(kind, tmp_path)
    rows = [stored("run-x", version, correlation="x") for version in (1, 2, 3)]
    append(app.store, deciding(*rows))
    one = len(rows[0][3])
    found = [len(app.store.facts_within("x", 0, 10, size)) for size in (0, one, one + 1, 2 * one, 2 * one + 1, 9 * one)]
    within = app.store.facts_within("x", 1, 10, one)
    limited = app.store.facts_within("x", 1, 1, 9 * one)
    beyond = app.store.facts_within("x", 3, 10, one)
    app.close()

    assert [1, 1, 2, 2, 3, 3] == found
    assert [[2], [2], []] == [[fact.position for fact in facts] for facts in (within, limited, beyond)]
