"""Every lesson of the four systems is answered by a test, a reason, or the capability that will bring it."""

from pathlib import Path

import pytest

from tools.origins import citations, rows, unanswered


def test_every_row_has_a_test_or_a_reason_or_a_capability_that_will_bring_it() -> None:
    assert [] == unanswered(rows(), citations())


def test_no_test_cites_a_row_that_does_not_exist() -> None:
    assert set() == citations().keys() - {row.id for row in rows()}


def test_a_row_with_neither_is_named(tmp_path: Path) -> None:
    table = tmp_path / "origins.toml"
    table.write_text(
        '[capabilities]\n"soon" = "x"\n[rows]\nA1 = {text = "x"}\nA2 = {text = "x", brought_by = "soon"}\n'
    )

    assert ["A1"] == unanswered(rows(table), {})


def test_a_row_that_waits_for_an_unlisted_capability_is_an_error(tmp_path: Path) -> None:
    table = tmp_path / "origins.toml"
    table.write_text('[capabilities]\n[rows]\nA1 = {text = "x", brought_by = "one day"}\n')

    with pytest.raises(KeyError, match="one day"):
        rows(table)


def test_a_citation_is_found_on_functions_classes_modules_and_machines(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_one.py").write_text(
        'pytestmark = pytest.mark.origin("M1")\n'
        '@pytest.mark.origin("F1", "F2")\ndef test_it_holds(): ...\n'
        '@pytest.mark.origin("C1")\nclass TestGroup:\n    def test_it_holds_too(self): ...\n'
        'TestMachine = pytest.mark.origin("H1")(Machine.TestCase)\n'
    )
    cited = citations(tests)

    assert {
        "M1": ["every test in it"],
        "F1": ["test_it_holds"],
        "F2": ["test_it_holds"],
        "C1": ["TestGroup.test_it_holds_too"],
        "H1": ["TestMachine"],
    } == {row_id: [found.test for found in by] for row_id, by in cited.items()}
