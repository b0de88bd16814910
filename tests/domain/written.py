"""What the domain decides, written down in full: every fact with every value, every refusal with its sentence.

The tables beside this file say which *kinds* of facts follow; here stands what is *in* them. Each page of
``tests/domain/written`` is made by its maker in ``tests.domain.pages``, a section for each command; under an outcome
stand the situations that have it. A change of one value anywhere in a decision changes a page, and is then either a
fault or a change that its author reads, line by line, and commits.

``python -m tests.domain.written`` writes the pages anew.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from domain.refusal import Refusal
from domain.run_facts import Work
from tests.domain.kit import NOON, Decide, Given

FOLDER = Path(__file__).with_name("written")
HEADING = "## "
INSTANT = re.compile(r'"(2026-01-01T[0-9:.]+Z)"')
REPEATED = re.compile(r"(.)\1{40,}")

WORK = Work(output_chunks=3, output_bytes=120, output_digest="d-out", partials=2, partial_digest="d-part")
SHORT = {msgspec.json.encode(WORK).decode(): "<its work>", msgspec.json.encode(Work()).decode(): "<no work>"}
"""What stands in so many lines that only its name is written."""

Cases = Mapping[str, tuple[Given, float]]
"""How a run stands, by name, and the second after noon at which it is asked."""


def plain(value: Any) -> str:
    """The JSON of a value; instants as seconds since noon."""
    whole = INSTANT.sub(_since_noon, msgspec.json.encode(value).decode())
    for work, name in SHORT.items():
        whole = whole.replace(work, name)
    return whole


def _since_noon(instant: re.Match[str]) -> str:
    return f"{(datetime.fromisoformat(instant[1]) - NOON.wall).total_seconds():+.12g}s"


def counted(text: str) -> str:
    """The same with a character that stands there very often only counted."""
    return REPEATED.sub(lambda run: f"{run[1]}*{len(run[0])}", text)


def refused(refusal: Refusal) -> str:
    """A refusal in full."""
    return f"! {refusal.code}: {refusal} {plain(refusal.fields())}"


def outcome(given: Given, decide: Decide, at: float) -> str:
    """What follows, in full: facts with their streams and the state of the run afterwards, nothing, or a refusal."""
    followed = given.when(decide, at)
    try:
        entries = followed.entries
    except Refusal as refusal:
        return refused(refusal)
    if not entries:
        return "nothing"
    told = [f"{stream} {type(fact).__name__} {plain(fact)}" for stream, fact in entries]
    return "\n  ".join([f"it is {followed.after.standing.state}", *told])


def section(decide: Decide, cases: Cases) -> str:
    """What one command does in each case, cases of one outcome together."""
    return together((name, outcome(given, decide, at)) for name, (given, at) in cases.items())


def together(outcomes: Iterable[tuple[str, str]]) -> str:
    """Outcomes in the order in which they first came, each under the names that have it."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, text in outcomes:
        found[counted(text)].append(name)
    return "".join(f"{', '.join(names)}\n  {text}\n" for text, names in found.items())


def page(name: str) -> dict[str, str]:
    """The sections of a page as they are written."""
    parts = (FOLDER / f"{name}.txt").read_text().split(HEADING)[1:]
    return dict(part.split("\n", 1) for part in parts)


def write(name: str, sections: Mapping[str, str]) -> None:
    """Write a page."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.txt").write_text("".join(f"{HEADING}{title}\n{text}" for title, text in sections.items()))


if __name__ == "__main__":
    from tests.domain.pages import PAGES

    for name, makers in PAGES.items():
        write(name, {title: make() for title, make in makers.items()})
