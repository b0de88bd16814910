"""The documents keep up with the code: whatever can be refused, stored or typed is described where people look.

Documents rot in silence, so each promise that one of them makes about the code is checked against the code.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from api.problems import STATUS
from domain.refusal import Refusal
from jackline.cli import app
from journal.topics import TOPICS
from tests.architecture.sources import ROOT, tracked

DOCS = ROOT / "docs"
ADRS = sorted((DOCS / "adr").glob("*.md"))
ADR_LINES = 80
ADR_SECTIONS = ["Context", "Options", "Decision", "Consequences", "Check"]
ROW = re.compile(r"^\| `([a-z_]+)` \| (\d{3}) \| (.+) \| (.+) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PROSE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
# Built from parts, so that this file does not contain what it forbids.
MACHINE = re.compile(r"(?<![\w.])/(?:" + "|".join(["ho" + "me/[a-z]", "ro" + "ot/", "Us" + "ers/", "wo" + "rk/"]) + ")")
INDEX = re.compile("|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.(?:org|com)"]))


def test_every_refusal_has_a_row_that_says_its_status_meaning_and_remedy() -> None:
    missing = {refusal.code for refusal in _refusals()} - {code for code, *_ in _rows()}

    assert set() == missing


def test_no_row_describes_a_refusal_that_cannot_happen() -> None:
    assert set() == {code for code, *_ in _rows()} - {refusal.code for refusal in _refusals()} - set(STATUS)


def test_every_documented_status_is_the_one_that_is_sent() -> None:
    wrong = {code: (status, STATUS.get(code)) for code, status, *_ in _rows() if STATUS.get(code) != int(status)}

    assert {} == wrong


@pytest.mark.origin("D58")
def test_every_stored_name_is_described() -> None:
    described = (DOCS / "facts.md").read_text()

    assert [] == [topic for topic in TOPICS if f"`{topic}`" not in described]


def test_every_verb_of_the_command_line_is_described() -> None:
    described = (DOCS / "command-line.md").read_text()

    assert [] == [verb for verb in _verbs() if f"`{verb}`" not in described]


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in _prose()
        for target in LINK.findall(document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]

    assert [] == broken


def test_every_folder_of_the_checkout_is_on_the_readmes_map() -> None:
    folders = {name.split("/")[0] for name in tracked() if "/" in name and not name.startswith(".")}
    mapped = set(re.findall(r"^\| `([a-z]+)/` \|", (ROOT / "README.md").read_text(), re.MULTILINE))

    assert folders == mapped


@pytest.mark.origin("A52")
@pytest.mark.parametrize("record", ADRS, ids=lambda path: path.stem)
def test_every_decision_record_is_short_and_ends_with_how_it_is_checked(record: Path) -> None:
    text = record.read_text()

    assert ADR_SECTIONS == re.findall(r"^## (\w+)", text, re.MULTILINE)
    assert len(text.splitlines()) <= ADR_LINES
    assert re.search(r"`[^`]+`", text.split("## Check")[1])


def test_the_decision_records_are_numbered_without_a_gap() -> None:
    assert [f"{number:04}" for number in range(1, len(ADRS) + 1)] == [record.name[:4] for record in ADRS]


@pytest.mark.parametrize("record", ADRS, ids=lambda path: path.stem)
def test_every_file_that_a_decision_record_cites_exists(record: Path) -> None:
    cited = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml|txt))", record.read_text())

    assert [] == [path for path in cited if not (ROOT / path).exists()]


def test_nothing_committed_names_a_machine_or_an_index() -> None:
    leaking = [
        f"{name}: {match.group()}"
        for name in tracked()
        for match in [*MACHINE.finditer(_text(name)), *INDEX.finditer(_text(name))]
    ]

    assert [] == leaking


def _refusals() -> Iterator[type[Refusal]]:
    """Every subclass that the composed service can raise; importing the face has imported every room."""
    waiting = [Refusal]
    while waiting:
        found = waiting.pop().__subclasses__()
        waiting += found
        yield from (refusal for refusal in found if "code" in vars(refusal))


def _rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall((DOCS / "refusals.md").read_text())


def _verbs() -> list[str]:
    """`jackline verb` and `jackline verb sub-verb`, the service's among them."""
    return sorted(_paths(typer.main.get_command(app), "jackline"))


def _paths(command: Any, prefix: str) -> Iterator[str]:
    for name, inner in command.commands.items():
        if isinstance(inner, TyperGroup):
            yield from _paths(inner, f"{prefix} {name}")
        elif isinstance(inner, TyperCommand) and not inner.hidden:
            yield f"{prefix} {name}"


def _prose() -> list[Path]:
    return [*(ROOT / name for name in PROSE), *sorted(DOCS.rglob("*.md"))]


def _text(name: str) -> str:
    try:
        return (ROOT / name).read_text()
    except UnicodeDecodeError:
        return ""
