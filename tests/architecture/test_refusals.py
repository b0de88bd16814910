"""The table of refusals and the code agree: every refusal and every fault has a row, and every row can happen."""

import importlib
import re
from collections.abc import Iterator

from api.problems import STATUS
from api.settings import InvalidSetting
from domain.refusal import Refusal
from journal.errors import CommandRecorded, JournalError, StaleRead
from tests.architecture.sources import ROOMS, ROOT, modules

TEXT = (ROOT / "docs" / "refusals.md").read_text()
ANSWERS = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)
FAULTS = re.findall(r"^\| `([a-z_]+)` \| (.+) \| (.+) \|$", TEXT.partition("## Faults")[2], re.MULTILINE)
INTERNAL = {StaleRead.code, CommandRecorded.code}


def test_every_refusal_has_a_row_that_says_its_status_meaning_and_remedy() -> None:
    assert set() == _codes(Refusal) - {code for code, *_ in ANSWERS}


def test_every_failure_of_the_journal_has_a_row_that_says_its_meaning_and_remedy() -> None:
    described = {code for code, *_ in ANSWERS} | {code for code, *_ in FAULTS}

    assert set() == (_codes(JournalError) | {InvalidSetting.code}) - INTERNAL - described


def test_every_code_that_can_be_sent_is_described_with_the_status_it_is_sent_with() -> None:
    assert {code: int(status) for code, status, *_ in ANSWERS} == dict(STATUS)


def test_no_row_describes_what_cannot_happen() -> None:
    known = _codes(Refusal) | _codes(JournalError) | set(STATUS) | {InvalidSetting.code}

    assert set() == {code for code, *_ in [*ANSWERS, *FAULTS]} - known


def test_no_code_is_described_twice() -> None:
    codes = [code for code, *_ in [*ANSWERS, *FAULTS]]

    assert sorted(set(codes)) == sorted(codes)


def _codes(base: type[Exception]) -> set[str]:
    """Codes of the concrete kinds below this one, in every room."""
    for module in modules(*ROOMS):
        importlib.import_module(module.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    return {kind.code for kind in _kinds(base) if "code" in vars(kind) and not kind.__subclasses__()}  # type: ignore[attr-defined]


def _kinds(base: type[Exception]) -> Iterator[type[Exception]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("tests."):
            continue
        yield kind
        yield from _kinds(kind)
