"""What the command line shows: on terminals of a known width, and into pipes."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console
from rich.text import Text

from jackline.cli import show
from jackline.models import Run

AT = datetime(2030, 11, 29, 20, 19, 5, tzinfo=UTC)
RUN_ID = "01a228f6166d74e48b59c005564e4265"
OTHER_ID = "01a228f6166d74e48b59c005564e4266"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 80 columns without colours."""
    seen = io.StringIO()
    monkeypatch.setattr(show, "out", Console(file=seen, width=80, force_terminal=True, no_color=True, highlight=False))
    monkeypatch.setattr(show, "state", lambda name: Text(name))
    return seen


def lines(seen: io.StringIO) -> list[str]:
    """What was seen, without what only a terminal needs."""
    return [Text.from_ansi(line).plain.rstrip() for line in seen.getvalue().splitlines()]


def test_a_listing_on_80_columns_breaks_no_word_and_keeps_what_one_copies(terminal: io.StringIO) -> None:
    long = Run(RUN_ID, "default", "waiting_takeover", name="the name of this run", owner="a-worker-of-the-cluster")
    show.runs([long, Run(OTHER_ID, "default", "queued", name="count", submitted_at=AT)])
    head, first, second = lines(terminal)

    assert ["run", "name", "state", "owner", "submitted"] == head.split()
    assert first.startswith(f"{RUN_ID}  ")
    assert "  waiting_takeover  " in first
    assert first.count("…") == 2
    assert "count" in second
    assert second.endswith(show.moment(AT))
    assert max(map(len, (head, first, second))) <= 80


def test_a_listing_in_a_pipe_says_everything_and_is_not_filled_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "out", Console(file=io.StringIO(), width=show.WIDE, highlight=False))
    show.runs([Run(RUN_ID, "default", "queued", name="count")])
    head, row = capsys.readouterr().out.splitlines()

    assert ["run", "name", "queue", "state", "attempt", "fence", "owner", "submitted"] == head.split()
    assert row == row.rstrip()
