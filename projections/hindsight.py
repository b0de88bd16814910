"""Looking back: the place in the journal that somebody means, and one run as it stood there.

Which place is meant, and which is refused, is said in ``projections.finding``.

A run is folded from its own facts up to the place, so the answer is what was live at it. What was never recorded (the
marks of the evidence register, the partial that was last saved) is not known of the past: it is null, and the answer
says so under ``as_of``.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from domain.refusal import Refusal, RunUnknown
from domain.run import run_stream
from domain.standing import Standing, effects_stream, lease_stream
from domain.values import Value
from domain.workspace import UNPLACED, Unplaced, Workspace, evolve, workspace_stream
from domain.workspace_facts import WorkspacePlaced
from journal.mapper import Recorded
from journal.store import Store
from journal.topics import FOLDS, prefix_of
from projections.document import document
from projections.finding import meant, place_at
from projections.ground_document import brief
from projections.live.grounds import REMEMBERED_MAX

NOT_RECORDED = ("evidence", "partial")
"""What a run shows that is no fact, and is therefore null in the past."""

GROUNDS = workspace_stream("")
PAGE = 1_000
"""Facts that are read at once."""


class RunNotYet(Refusal):
    """The run was submitted after the position that is asked for."""

    code = "run_not_yet"

    def __init__(self, run_id: str, position: int, submitted: int) -> None:
        super().__init__(
            f"run {run_id!r} was not there at position {position}: it was submitted at position {submitted}",
            run_id=run_id,
            position=position,
            submitted=submitted,
        )


class AsOf(Value, frozen=True, kw_only=True):
    """The place in the journal that an answer shows, when that was, and what is null because it was never recorded."""

    position: int
    recorded_at: datetime
    not_recorded: tuple[str, ...] = NOT_RECORDED


def as_of(store: Store, at: str, now: datetime) -> AsOf:
    """The place that is meant by ``at``.

    Raises:
        InvalidCommand: ``at`` is neither a position nor an instant.
        PositionBeyond, InstantBefore, InstantBeyond: nothing is known of it.
    """
    place = place_at(store, meant(at, now))
    return AsOf(position=place.position, recorded_at=place.recorded_at)


def facts_until(store: Store, run_id: str, position: int) -> Iterator[Recorded]:
    """The facts of a run up to a position, in order."""
    after = 0
    while True:
        page = store.facts_of(run_id, after, PAGE)
        for recorded in page:
            if recorded.position > position:
                return
            yield recorded
        if len(page) < PAGE:
            return
        after = page[-1].position


def next_after(store: Store, run_id: str, position: int) -> Recorded | None:
    """The run's first fact after a position; None when there is none yet."""
    return next(iter(store.facts_of(run_id, position, 1)), None)


def told_until(store: Store, run_id: str, place: AsOf) -> list[Recorded]:
    """The facts of a run up to a place; there is at least its submission.

    Raises:
        RunNotYet: it was submitted later.
        RunUnknown: it never was.
    """
    told = list(facts_until(store, run_id, place.position))
    if told:
        return told
    first = next_after(store, run_id, 0)
    raise RunUnknown(run_id) if first is None else RunNotYet(run_id, place.position, first.position)


def standing_of(run_id: str, facts: list[Recorded]) -> Standing:
    """How a run stands after these facts of it; there is no mark of its lease, because marks are not recorded."""
    streams = (run_stream(run_id), lease_stream(run_id), effects_stream(run_id))
    states = {stream: FOLDS[prefix_of(stream)].initial for stream in streams}
    for recorded in facts:
        if isinstance(recorded.fact, WorkspacePlaced):
            states[recorded.stream] = UNPLACED
        if recorded.stream in states:
            fold = FOLDS[prefix_of(recorded.stream)].evolve
            states[recorded.stream] = fold(states[recorded.stream], recorded.fact)
    run, lease, effects = (states.pop(stream) for stream in streams)
    return Standing(run_id=run_id, run=run, lease=lease, effects=effects, workspaces=tuple(states.values()))


def run_at(store: Store, run_id: str, place: AsOf) -> dict[str, Any]:
    """The run as it was shown at a place, without what was never recorded.

    Raises:
        RunNotYet: it was submitted later.
    """
    told = told_until(store, run_id, place)
    standing = standing_of(run_id, told)
    shown = document(standing.known, standing.lease)
    grounds = standing.workspaces[-REMEMBERED_MAX:]
    whole = {**shown, **beside(grounds), **open_turns(standing)}
    return {**whole, "position": told[-1].position, "as_of": place}


def open_turns(standing: Standing) -> dict[str, Any]:
    """The turns of a run that are under way, under their name, where there are any."""
    turns = [
        {
            "turn": turn.turn,
            "state": turn.state,
            "workspace_id": turn.workspace_id,
            "mark": turn.mark,
            "admitted_at": turn.admitted_at,
        }
        for turn in standing.known.turns.open.values()
    ]
    return {"turns": turns} if turns else {}


def beside(grounds: Sequence[Workspace]) -> dict[str, Any]:
    """What belongs to a run beside its own document: the workspaces that it stood on, and no mark of the past."""
    marks = dict.fromkeys(("last_renewed_at", "lease_deadline", "last_activity_at", "quiet_since"))
    unseen = min((each.unknown_since for each in grounds if each.unknown_since is not None), default=None)
    return {
        "partial": None,
        "workspaces": [brief(workspace) for workspace in grounds],
        "evidence": {**marks, "unknown_since": unseen},
    }


def grounds_at(store: Store, run_id: str, position: int) -> list[Workspace]:
    """What a run stood on at a position, in the order in which it was placed; the latest, if that was much."""
    found = (_ground_at(store, stream, position) for stream in store.streams_of(run_id, GROUNDS, REMEMBERED_MAX))
    return [workspace for workspace in found if isinstance(workspace, Workspace)]


def _ground_at(store: Store, stream: str, position: int) -> Workspace | Unplaced:
    state: Workspace | Unplaced = UNPLACED
    for recorded in store.stream(stream):
        if recorded.position > position:
            break
        state = evolve(state, recorded.fact)  # type: ignore[arg-type]
    return state
