"""How answers look: tables for people, JSON for programs.

JSON goes to standard output, whole documents indented on a terminal and compact otherwise, streams one document a
line. Text from the service (names, output, messages) is never taken for markup, and control characters in it are made
visible, so that a run cannot write on the terminal of whoever looks at a table.
"""

import dataclasses
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from jackline.clock import wall
from jackline.models import Effect, Fact, Run, UnansweredTimeout
from jackline.reasons import AsOf, ShownTurn
from jackline.workspaces.models import Ground

COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "aborted": "red",
    "lost": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "queued": "default",
    "reserved": "default",
}
# What a fact says that everybody who looks at one run knows, or that `--json` is for.
UNTOLD = frozenset({"run_id", "tenant", "policy", "work", "body_digest", "payload_digest"})
FIRST = ("outcome", "error", "detached")  # what one looks for in a fact
WIDE = 200  # columns when nobody's terminal says how many there are
SHORTEST = 5  # characters that are left of what is cut
GAP = 2  # columns between two columns
WORD = 16  # columns of the longest word that a cell which wraps is not to break
SPARED = ("queue", "attempt", "fence")  # what a listing of runs does without when it is narrow
SHORTENED = ("name", "owner")  # and what it cuts then, so that ids, states and instants stay whole

out = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
err = Console(stderr=True, highlight=False)


class Waiting:
    """Something that moves on a terminal while nothing else can be shown; silent where there is no terminal."""

    def __init__(self, for_what: str) -> None:
        self._status = err.status(f"[dim]{for_what}[/]") if err.is_terminal else None

    def __enter__(self) -> "Waiting":
        if self._status is not None:
            self._status.start()
        return self

    def over(self) -> None:
        """There is something to show now."""
        if self._status is not None:
            self._status.stop()

    def __exit__(self, *_: object) -> None:
        self.over()


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def print_json(value: Any, *, line: bool = False) -> None:
    """Print a value as JSON; `line`: as one of many."""
    indent = 2 if sys.stdout.isatty() and not line else None
    print(json.dumps(plain(value), ensure_ascii=False, indent=indent), flush=True)


def safe(text: str) -> str:
    """Text without control characters that a terminal would obey."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def brief(value: Any, width: int = 60) -> str:
    """A value on one line of bounded width."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    text = safe(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def moment(instant: datetime | None) -> str:
    """An instant in local time: the clock on the wall is what people compare with; with its year if it is another."""
    if instant is None:
        return ""
    local = instant.astimezone()
    return local.strftime("%m-%d %H:%M:%S" if local.year == wall().astimezone().year else "%Y-%m-%d %H:%M:%S")


def shortly(instant: datetime | None) -> str:
    """The same where there is little room: of another year, the day."""
    told = moment(instant)
    return told if instant is None or len(told) < len("2030-01-31 12:00:00") else told.partition(" ")[0]


def state(name: str) -> Text:
    """A state in its colour."""
    return Text(name, style=COLOURS.get(name, "magenta"))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, whole: bool = False) -> None:
    """Print a table; the first column is never cut, because it is what one copies. `whole`: a row is one line.

    Where there is no room for that without breaking words, each row becomes a few lines, a value on each.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if _least(columns, cells, whole=whole) > out.width:
        _one_by_one(columns, cells)
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        if index == 0:
            grid.add_column(column, no_wrap=True, overflow="fold")
        else:
            grid.add_column(column, no_wrap=whole, overflow="ellipsis" if whole else "fold")
    for row in cells:
        grid.add_row(*row)
    put(grid)


def _least(columns: Sequence[str], rows: Sequence[Sequence[Text]], *, whole: bool) -> int:
    """The columns of a terminal that a table needs at least; a word of a cell that may wrap is only so long."""
    least = _width(columns[0], (row[0] for row in rows)) + GAP * (len(columns) - 1)
    for index, name in enumerate(columns[1:], 1):
        cells = [row[index] for row in rows]
        words = [Text(word) for cell in cells for word in cell.plain.split()]
        least += _width(name, cells) if whole else min(_width(name, words), WORD)
    return least


def _one_by_one(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
    """Each row as lines of its own: the value of the first column, then what the others say, indented."""
    for row in rows:
        put(row[0])
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell.plain:
                put(Text.assemble(f"  {column} ", cell))


def put(shown: RenderableType) -> None:
    """Print to standard output; what goes to a file or a pipe is not filled up with blanks."""
    if out.is_terminal:
        out.print(shown)
        return
    with out.capture() as captured:
        out.print(shown)
    for line in captured.get().splitlines():
        print(line.rstrip())


def fields(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, those without a value left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            grid.add_row(name, value if isinstance(value, Text) else Text(brief(value, 2000)))
    put(grid)


def runs(items: Sequence[Run]) -> None:
    """A listing of runs, a line each; a narrow terminal is told less, and nothing of it broken."""
    columns: dict[str, Callable[[Run], Any]] = {
        "run": lambda run: run.run_id,
        "name": lambda run: run.name or "",
        "queue": lambda run: run.queue,
        "state": lambda run: _marked(run),
        "attempt": lambda run: run.attempt,
        "fence": lambda run: run.fence,
        "owner": lambda run: run.owner or "",
        "submitted": lambda run: shortly(run.submitted_at),
    }
    names = list(columns)
    if _wide(names, rows := [[_cell(cell(run)) for cell in columns.values()] for run in items]) > out.width:
        names = [name for name in names if name not in SPARED]
        rows = [[_cell(columns[name](run)) for name in names] for run in items]
        _shorten(names, rows)
    table(names, rows, whole=True)
    if any(run.timeouts for run in items):
        told = "! a timeout waits for an answer (`jackline show RUN`): `jackline extend RUN` or `jackline abort RUN`"
        err.print(told, style="dim", soft_wrap=True)


def _marked(run: Run) -> Text:
    """The state, and whether a timeout waits for an answer."""
    return Text.assemble(state(run.state), (" !" if run.timeouts else "", "yellow"))


def listing(columns: Sequence[str], rows: Iterable[Sequence[Any]], spared: Sequence[str]) -> None:
    """A line for each row; on a terminal that is too narrow for all columns, those that can be spared are left out."""
    cells = [[_cell(value) for value in row] for row in rows]
    kept = list(range(len(columns)))
    if _wide(columns, cells) > out.width:
        kept = [place for place in kept if columns[place] not in spared]
    table([columns[place] for place in kept], [[row[place] for place in kept] for row in cells], whole=True)


def _cell(value: Any) -> Text:
    return value if isinstance(value, Text) else Text(safe(str(value)))


def _width(name: str, cells: Iterable[Text]) -> int:
    return max([len(name), *(cell.cell_len for cell in cells)])


def _wide(names: Sequence[str], rows: Sequence[Sequence[Text]]) -> int:
    widths = [_width(name, (row[index] for row in rows)) for index, name in enumerate(names)]
    return sum(widths) + GAP * (len(widths) - 1)


def _shorten(names: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Cut the longest of what may be cut until the listing fits, or nothing is left to cut."""
    over = _wide(names, rows) - out.width
    places = [names.index(name) for name in SHORTENED]
    widths = {place: _width(names[place], (row[place] for row in rows)) for place in places}
    while over > 0 and max(widths.values()) > SHORTEST:
        widths[max(places, key=widths.__getitem__)] -= 1
        over -= 1
    for row in rows:
        for place in places:
            row[place].truncate(widths[place], overflow="ellipsis")


def one_run(run: Run, effects: Sequence[Effect] = ()) -> None:
    """Everything about one run, with those of its effects that want somebody to find out."""
    told: list[tuple[str, Any]] = [("run", run.run_id), ("name", run.name), ("state", state(run.state))]
    told += [("reason", run.reason), ("queue", run.queue), ("attempt", run.attempt), ("fence", run.fence)]
    told += [("owner", run.owner), ("failed attempts", run.failed_attempts or None), ("due", moment(run.due_at))]
    told += [("tags", run.tags), ("labels", run.labels), ("question", run.question)]
    told += [("answers", [{"question": one.question, "answer": one.answer} for one in run.answers])]
    told += [("not answered", one) for one in map(_timeout, run.timeouts)]
    told += [("payload", run.payload), ("partial", run.partial), ("result", run.result), ("error", run.error)]
    told += [("retry of", run.retry_of), ("leader", run.leader_id), ("policy", run.policy)]
    told += [("effect", _unknown(run.run_id, one)) for one in effects if one.state == "ambiguous"]
    told += [("stands on", one) for one in map(_ground, run.workspaces)]
    told += [("turn", one) for one in map(_turn, run.turns)]
    told += [("submitted", moment(run.submitted_at)), ("settled", moment(run.settled_at)), ("position", run.position)]
    fields(told)
    as_of(run.as_of)


def as_of(place: AsOf | None, more: str = "") -> None:
    """Of which place in the journal it is what was shown, and what is not known of it; `more` follows."""
    if place is not None:
        missing = " and ".join(map(str, place.not_recorded))
        text = f"as of position {place.position}, {moment(place.recorded_at)}; {missing} are not recorded{more}"
        err.print(text, style="dim")


def ago(instant: datetime | None, now: datetime) -> str:
    """How long ago an instant was: tenths of seconds at first, later the instant itself; empty for none."""
    if instant is None:
        return ""
    ago_s = max(0.0, (now - instant).total_seconds())
    if ago_s < 60:
        return f"{ago_s:.1f} s ago"
    return f"{int(ago_s // 60)} min ago" if ago_s < 3600 else f"at {moment(instant)}"


def _timeout(one: UnansweredTimeout) -> str:
    """A timeout that waits for an answer, on one line."""
    since = "" if one.since is None else f" since {moment(one.since)}"
    return f"{one.kind}{since}, told after {one.after_s:g} s; `jackline extend` or `jackline abort` answers"


def _unknown(run_id: str, one: Effect) -> str:
    """An effect of which nobody knows whether it happened, and how to say so, on one line."""
    say = f"jackline effect reconcile {shlex.quote(one.key)} --run {run_id}"
    return f"{one.key}, ambiguous: `{say} --done` or `--not-done` says what was found out"


def _ground(one: Ground) -> str:
    """What a run stands on, on one line."""
    unknown = f", unknown since {moment(one.unknown_since)}" if one.unknown_since else ""
    reason = f" ({one.reason})" if one.reason else ""
    gone = ", destroyed" if one.destroyed_at and one.phase != "destroyed" else ""
    return f"{one.workspace_id}  {one.provider}, {one.phase}{reason}{unknown}{gone}"


def _turn(one: ShownTurn) -> str:
    """A turn under way, on one line."""
    where = "" if one.workspace_id is None else f", in workspace {one.workspace_id}"
    return f"{one.turn}, {one.state}, admitted {moment(one.admitted_at)}{where}"


def fact_words(fact: Fact, width: int = 40) -> str:
    """What a fact says, with how it ended first; a value of more than `width` characters is cut."""
    data = fact.data if isinstance(fact.data, Mapping) else {"data": fact.data}
    said = {name: value for name, value in data.items() if value not in (None, [], {}) and name not in UNTOLD}
    names = [name for name in FIRST if name in said] + [name for name in said if name not in FIRST]
    return "  ".join(f"{name}={brief(said[name], width)}" for name in names)


def fact_line(fact: Fact) -> str:
    """One fact on one line."""
    return brief(f"{fact_head(fact)} {fact_words(fact)}", out.width - 2)


def fact_head(fact: Fact) -> str:
    """Where a fact is, when it was recorded and what it is."""
    when = "" if fact.recorded_at is None else fact.recorded_at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    return f"{fact.position:>6}  {when}  {fact.topic:<26}"
