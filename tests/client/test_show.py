"""What the command line shows: on terminals of a known width, and into pipes."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from rich.console import Console
from rich.text import Text

from jackline.cli import admin, crew, explain, grounds, show
from jackline.decode import decode
from jackline.keys import Key
from jackline.models import Fact, Run, UnansweredTimeout, Why, WorkerInfo
from jackline.reasons import AsOf, OpenTurn, RunClock, ShownTurn
from jackline.workspaces.models import Workspace, WorkspaceLoss

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


@pytest.mark.parametrize("year", [AT.year, AT.year + 1])
def test_a_listing_on_80_columns_breaks_no_word_and_keeps_what_one_copies(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch, year: int
) -> None:
    monkeypatch.setattr(show, "wall", partial(datetime.fromisoformat, AT.replace(year=year).isoformat()))
    long = Run(RUN_ID, "default", "waiting_takeover", name="the name of this run", owner="a-worker-of-the-cluster")
    show.runs([long, Run(OTHER_ID, "default", "queued", name="count", submitted_at=AT)])
    head, first, second = lines(terminal)

    assert ["run", "name", "state", "owner", "submitted"] == head.split()
    assert first.startswith(f"{RUN_ID}  ")
    assert "  waiting_takeover  " in first
    assert first.count("…") == 2
    assert "count" in second
    assert second.endswith(show.shortly(AT))
    assert max(map(len, (head, first, second))) <= 80


def test_an_instant_of_another_year_is_told_with_its_year(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for present in (AT, AT.replace(year=AT.year + 1)):
        monkeypatch.setattr(show, "wall", partial(datetime.fromisoformat, present.isoformat()))
        told.append(show.moment(AT))

    assert [f"{AT.astimezone():%m-%d %H:%M:%S}", f"{AT.astimezone():%Y-%m-%d %H:%M:%S}"] == told


def test_why_of_the_past_counts_back_from_then_and_says_whose_the_evidence_is(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = io.StringIO()
    monkeypatch.setattr(show, "err", Console(file=err, width=200))
    evidence = {"last_renewed_at": (AT - timedelta(seconds=25)).isoformat(), "renewals": 3, "detached": True}
    explain.why(RUN_ID, Why("queued", evidence=evidence, as_of=AsOf(7, AT, ["evidence", "partial"])))

    assert "evidence  last heard 25.0 s ago, renewed 3 times" in " ".join(lines(terminal))
    assert "evidence and partial are not recorded; the evidence is what a fact told then" in err.getvalue()


def test_a_run_shows_its_open_turns(terminal: io.StringIO) -> None:
    show.one_run(Run(RUN_ID, "default", "running", turns=[ShownTurn(2, "busy", OTHER_ID, 1, AT)]))

    assert f"2, busy, admitted {show.moment(AT)}, in workspace {OTHER_ID}" in " ".join(
        " ".join(lines(terminal)).split()
    )


@pytest.mark.parametrize("width", [20, 32, 59, 60, 61, 79])
@pytest.mark.parametrize("what", ["runs", "workspaces", "workers"])
def test_however_narrow_a_terminal_is_an_id_is_whole_and_what_is_cut_says_so(
    monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, width: int, what: str
) -> None:
    monkeypatch.setattr(show.out, "width", width)
    if what == "runs":
        show.runs([Run(RUN_ID, "default", "waiting_takeover", name="a name", owner="a-worker", submitted_at=AT)])
    elif what == "workspaces":
        grounds.listing([Workspace(RUN_ID, "provision_failed", run_id=OTHER_ID, placed_at=AT)], AT)
    else:
        show.table(("worker", "state", "slots", "last heard"), [(RUN_ID, "quarantined", "1/4", "9 min ago")])
    seen = "".join(lines(terminal)) if width < len(RUN_ID) else " ".join(lines(terminal))
    state = {"runs": "waiting_takeover", "workspaces": "provision_failed", "workers": "quarantined"}[what]

    assert RUN_ID in seen
    assert state in seen
    assert max(map(len, lines(terminal))) <= width


def test_a_listing_in_a_pipe_says_everything_and_is_not_filled_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "out", Console(file=io.StringIO(), width=show.WIDE, highlight=False))
    show.runs([Run(RUN_ID, "default", "queued", name="count")])
    head, row = capsys.readouterr().out.splitlines()

    assert ["run", "name", "queue", "state", "attempt", "fence", "owner", "submitted"] == head.split()
    assert row == row.rstrip()


def test_a_run_whose_timeout_waits_for_an_answer_is_marked_in_a_listing_and_says_which_when_it_is_shown(
    terminal: io.StringIO, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "err", Console(stderr=True, width=200, highlight=False))
    asked = Run(RUN_ID, "default", "running", timeouts=[UnansweredTimeout("run-1@3", "inactivity", AT, 4.0)])
    show.runs([asked, Run(OTHER_ID, "default", "running")])
    show.one_run(asked)
    _, marked, plain, *shown = lines(terminal)

    assert ("running !", "running") == (marked[34:].strip(), plain[34:].strip())
    assert "`jackline extend RUN` or `jackline abort RUN`" in capsys.readouterr().err
    (told,) = [line for line in shown if line.startswith("not answered")]
    assert f"inactivity since {show.moment(AT)}, told after 4 s" in told


def test_why_says_first_what_went_wrong_and_cuts_nothing(terminal: io.StringIO) -> None:
    error = {"code": "exit", "exit_code": 7, "message": "the command exited with 7"}
    data = {"attempt": 1, "fence": 2, "outcome": "failed", "error": error, "worker": "w" * 30, "note": "the very end"}
    explain.why(RUN_ID, Why("failed", [Fact(9, "run.closed.v1", data, recorded_at=AT)], {"carried": [1]}, 2))
    told = lines(terminal)

    assert f"{RUN_ID} is failed, fence 2: the command exited with 7" == " ".join(" ".join(told[:2]).split()[:10])
    assert any("run.closed.v1" in line and "outcome=failed" in line for line in told)
    assert "note=the very end" in " ".join(" ".join(told).split())
    assert "carried" not in "".join(told)
    assert max(map(len, told)) <= 80


def test_what_was_heard_of_a_worker_is_told_in_words() -> None:
    evidence = {"last_renewed_at": AT.isoformat(), "renewals": 32, "detached": True, "quiet_since": None}

    assert ["last heard 0.3 s ago", "renewed 32 times", "the worker's connection broke"] == explain.heard(
        evidence, AT + timedelta(seconds=0.3)
    )
    working = {"last_activity_at": AT.isoformat(), "quiet_since": AT.isoformat()}
    assert ["last sign of work 1.0 s ago"] == explain.heard(working, AT + timedelta(seconds=1))
    assert "last heard 2 min ago" == explain.heard(evidence, AT + timedelta(seconds=150))[0]


LOST = WorkspaceLoss("DirectoryReplaced", "a symbolic link is in its place")


def test_workspaces_on_80_columns_keep_their_ids_their_phase_and_why_they_ended(terminal: io.StringIO) -> None:
    unknown = Workspace(OTHER_ID, "running", "directory", None, RUN_ID, unknown_since=AT - timedelta(seconds=90))
    lost = Workspace(RUN_ID, "lost", "directory", None, RUN_ID, lost=LOST, placed_at=AT - timedelta(days=2))
    grounds.listing([unknown, lost], AT)
    head, first, second = lines(terminal)

    assert ["workspace", "phase", "age", "unknown", "for", "reason"] == head.split()
    assert [OTHER_ID, "running", "1", "min"] == first.split()
    assert [RUN_ID, "lost", "2", "d", "DirectoryReplaced"] == second.split()


def test_a_body_that_is_still_to_be_destroyed_is_told_beside_its_phase(terminal: io.StringIO) -> None:
    show.put(grounds.phase_of(Workspace(RUN_ID, "lost", lost=LOST, teardown=True)))

    assert ["lost, to be destroyed"] == lines(terminal)


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (86400, "1 d")]
)
def test_an_age_is_told_in_its_largest_whole_unit(seconds: int, told: str) -> None:
    assert told == grounds.age(AT, AT + timedelta(seconds=seconds))


def test_a_run_shows_what_it_stands_on(terminal: io.StringIO) -> None:
    show.one_run(Run(RUN_ID, "q", "lost", workspaces=[Workspace(OTHER_ID, "lost", "directory", lost=LOST)]))

    assert any(f"{OTHER_ID}  directory, lost (DirectoryReplaced)" in line for line in lines(terminal))


def test_why_says_what_the_run_stands_on_and_for_how_long_nobody_has_seen_it(terminal: io.StringIO) -> None:
    ground = {"workspace_id": OTHER_ID, "provider": "directory", "phase": "running", "unknown_age_s": 12.3}
    explain.why(RUN_ID, Why("running", workspaces=[ground]), AT)

    assert f"stands on  {OTHER_ID}, directory, running, unknown for 12 s" in " ".join(lines(terminal))


def test_clocks_and_turns_name_what_they_are_about_and_former_ground_is_told_as_such(
    terminal: io.StringIO,
) -> None:
    lost = {"reason": "ProcessExited", "exit_code": 3, "message": None}
    grounds = [
        {"workspace_id": "w1", "provider": "process", "phase": "lost", "lost": lost},
        {"workspace_id": "w2", "provider": "directory", "phase": "teardown", "teardown": True},
        {"workspace_id": "w3", "provider": "directory", "phase": "running", "seen_at": AT.isoformat()},
    ]
    clocks = [RunClock("idle_reap", AT, AT, workspace_id="w3"), RunClock("admission", AT, AT, turn=2)]
    turn = OpenTurn(1, "busy", AT, "w3", 4)
    answer = Why("running", fence=1, clocks=clocks, turns=[turn], workspaces=grounds, next="it goes on.")
    explain.why(RUN_ID, answer, AT + timedelta(seconds=25))
    told = " ".join(" ".join(lines(terminal)).split())

    assert "idle_reap workspace w3, since" in told
    assert "admission turn 2, since" in told
    assert "turn 1, busy since" in told
    assert "in workspace w3 at incarnation 4" in told
    assert "stood on w1, process, lost (ProcessExited, exit 3)" in told
    assert "stood on w2, directory, teardown" in told
    assert "stands on w3, directory, running, last seen 25.0 s ago" in told
    assert 1 == told.count("stands on")
    explain.why(RUN_ID, replace(answer, state="cancelled"), AT)
    assert 1 == " ".join(lines(terminal)).count("stands on")


def test_a_quarantined_worker_is_told_with_its_reason_until_when_and_what_ends_it() -> None:
    told = {"reason": "stalled", "since": AT.isoformat(), "until": AT.isoformat()}
    aside = WorkerInfo("w1", state="quarantined", raw={"quarantine": told})
    before, after = crew._aside(aside, AT - timedelta(seconds=1)), crew._aside(aside, AT)

    assert f"w1 is quarantined: stalled; until {show.moment(AT)}, then it may have one probing run" in before
    assert "stalled; until its one probing run ends without blame; `jackline workers release w1`" in after
    assert not crew._aside(WorkerInfo("w2", raw={"quarantine": None}), AT)


def test_a_run_shows_of_its_ground_what_was_said_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {"workspace_id": "w1", "phase": "running", "provider": "directory", "identity": "1:2"}
    run = decode(Run, {"run_id": RUN_ID, "queue": "default", "state": "running", "workspaces": [said]})
    show.print_json(run)
    (shown,) = json.loads(capsys.readouterr().out)["workspaces"]

    assert set() == {"attached_at", "placed_at", "last_asserted_at", "run_id", "position", "spec", "details"} & set(
        shown
    )
    assert said == {name: shown[name] for name in said}


def test_keys_are_listed_with_whom_they_speak_for() -> None:
    assert "leader ada, bob" == admin._bound(Key("k", leader_ids=["ada", "bob"]))
    assert "" == admin._bound(Key("k"))
