"""The documents hold together: links lead somewhere, the map is complete, and decisions say how they are checked.

Nothing that is committed says on whose machine, or from which index, it was made.
"""

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, tracked

DOCS = ROOT / "docs"
ADRS = sorted((DOCS / "adr").glob("*.md"))
ADR_LINES = 80
ADR_SECTIONS = ["Context", "Options", "Decision", "Consequences", "Check"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PROSE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
# Built from parts, so that this file does not contain what it forbids.
MACHINE = re.compile(r"(?<![\w.])/(?:" + "|".join(["ho" + "me/[a-z]", "ro" + "ot/", "Us" + "ers/", "wo" + "rk/"]) + ")")
INDEX = re.compile("|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.(?:org|com)"]))


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


def _prose() -> list[Path]:
    return [*(ROOT / name for name in PROSE), *sorted(DOCS.rglob("*.md"))]


def _text(name: str) -> str:
    try:
        return (ROOT / name).read_text()
    except UnicodeDecodeError:
        return ""
