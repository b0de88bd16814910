"""The tests are tested: each planted fault is found by the simulated world, which names the law that it breaks."""

from pathlib import Path

import pytest

from simulation import ground_books, ground_laws, laws, lease_books
from simulation.__main__ import main
from simulation.planted import registry
from simulation.planted.registry import PLANTED, SEEDS, Fault, find


@pytest.mark.parametrize("fault", PLANTED, ids=[fault.name for fault in PLANTED])
def test_a_planted_fault_is_found_and_its_law_is_named(fault: Fault) -> None:
    found = find(fault)

    assert found is not None, f"{SEEDS} worlds do not notice: {fault.text}"
    assert found.law in fault.laws


def test_every_planted_fault_says_what_is_wrong() -> None:
    assert all(fault.text.endswith(".") for fault in PLANTED)
    assert len(PLANTED) == len({fault.name for fault in PLANTED})


def test_every_law_is_one_that_a_planted_fault_breaks() -> None:
    texts = [vars(module) for module in (laws, ground_laws, ground_books, lease_books)]
    known = {text for names in texts for name, text in names.items() if name.isupper() and isinstance(text, str)}
    known = {text for text in known if " " in text}

    assert len(known) > 20
    assert set() == known - {law for fault in PLANTED for law in fault.laws}


def test_the_document_lists_every_planted_fault() -> None:
    section = Path("docs/testing.md").read_text().partition("<!-- planted faults")[2].partition("<!-- end")[0]

    assert [fault.name for fault in PLANTED] == [
        line.split()[0] for line in section.splitlines() if " worlds, " in line
    ]
    assert f"{len(PLANTED)} of {len(PLANTED)} planted faults found" in section


def test_a_fault_that_nobody_finds_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def change_nothing(patch: pytest.MonkeyPatch) -> None:
        """Nothing is wrong."""

    harmless = Fault(change_nothing, ())
    monkeypatch.setattr("simulation.__main__.PLANTED", (PLANTED[0], harmless))
    monkeypatch.setattr(registry, "SEEDS", 2)

    assert 1 == main(["--planted"])
    assert "change_nothing                   NOT FOUND" in capsys.readouterr().out
