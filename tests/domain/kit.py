"""Given facts, when a command, then facts: the whole vocabulary of the domain's tests.

    given(submitted(), granted("ada")).when(close(), at=5).then(RunClosed, LeaseReleased).now_it_is("succeeded")

`given` folds facts of all streams of one run, in the order in which they were recorded; a workspace's facts are w1's
unless `on` says whose. `when` decides one
command at a number of seconds after noon. `then` names every fact that follows, in order, by its kind or by its
value; `then_nothing` and `then_refused` are the two other answers. What follows can be told on: the outcome is itself
a `given` for the next command.

The evidence mark of a lease is made by its grant (or bind), as the service does it, and moved by `renewed` and
`detached`. A decision is checked against what must hold of every decision (`simulation.laws`) as it is applied.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import msgspec

from domain import effects, lease, run, workspace
from domain.decider import fold
from domain.lease import FenceBumped, LeaseBound, LeaseMark, LeaseReserved, SliceEnded
from domain.refusal import Refusal
from domain.run import Run
from domain.run_facts import RunFact, State
from domain.standing import Remains, RunDraft, Standing, effects_stream, lease_stream
from domain.values import NULL, Fact, Json, Moment, to_json
from domain.workspace import UNPLACED, Unplaced, Workspace, workspace_stream
from domain.workspace_facts import WorkspaceFact
from simulation.laws import check_decision

NOON = Moment(datetime(2026, 1, 1, 12, tzinfo=UTC), 1_000.0)
RUN = "r1"
GROUND = "w1"


class On(NamedTuple):
    """A fact of a workspace, and of which."""

    workspace_id: str
    fact: Fact


Decide = Callable[[Standing, Remains, Moment], RunDraft]
Told = Fact | On | Iterable["Told"]
R = TypeVar("R", bound=Refusal)
F = TypeVar("F", bound=Fact)


def noon(seconds: float = 0.0) -> datetime:
    """The instant that many seconds after noon."""
    return NOON.after(seconds).wall


def text(value: object) -> Json:
    """A JSON value as it travels; nothing is null."""
    return NULL if value is None else to_json(value)


class Given:
    """How one run stands after some facts, and what its last attempt left in the registers."""

    def __init__(self, standing: Standing, remains: Remains | None = None) -> None:
        self.standing = standing
        self.remains = Remains() if remains is None else remains

    @property
    def run(self) -> Run:
        """The run, which must have been submitted."""
        return self.standing.known

    def ground(self, workspace_id: str = GROUND) -> Workspace:
        """A workspace of the run, which must have been placed."""
        return self.standing.workspace(workspace_id)

    def having(self, remains: Remains) -> "Given":
        """The same, with these output lengths and this partial in the registers."""
        return Given(self.standing, remains)

    def partial(self, value: object, fence: int = 1) -> "Given":
        """The same, with this partial saved under that fence."""
        return self.having(msgspec.structs.replace(self.remains, partial=text(value), partial_fence=fence))

    def renewed(self, at: float) -> "Given":
        """The same, the holder having been heard at that second."""
        held, mark = self.standing.lease, self.standing.mark
        assert isinstance(held, lease.Held)
        assert mark is not None
        heard = LeaseMark(
            fence=mark.fence, deadline=NOON.mono + at + held.ttl_s, renewed_at=noon(at), renewals=mark.renewals + 1
        )
        return self.marked(heard)

    def detached(self, at: float, window_s: float = 1.0) -> "Given":
        """The same, the holder's last stream having been closed by its side at that second."""
        mark = self.standing.mark
        assert mark is not None
        deadline = min(mark.deadline, NOON.mono + at + window_s)
        return self.marked(
            msgspec.structs.replace(mark, deadline=deadline, detached=True, full_deadline=mark.ttl_deadline)
        )

    def unmarked(self) -> "Given":
        """The same, the evidence register having been lost."""
        return self.marked(None)

    def clockless(self) -> "Given":
        """The same, where no clock runs on the reservation or the slice."""
        return Given(msgspec.structs.replace(self.standing, ends=None), self.remains)

    def marked(self, mark: LeaseMark | None) -> "Given":
        """The same with this mark in the evidence register."""
        return Given(msgspec.structs.replace(self.standing, mark=mark), self.remains)

    def when(self, decide: Decide, at: float = 0.0) -> "Outcome":
        """What follows from the command at that second after noon."""
        try:
            draft = decide(self.standing, self.remains, NOON.after(at))
        except Refusal as refusal:
            return Outcome(self, refusal=refusal)
        return Outcome(self, draft=draft)

    def now_it_is(self, state: State, *, fence: int | None = None) -> "Given":
        """The same, asserting the run's state, and the fence in force where it matters."""
        assert state == self.standing.state
        assert fence is None or fence == self.standing.lease.fence
        return self


class Outcome:
    """What followed: facts, nothing, or a refusal."""

    def __init__(self, before: Given, draft: RunDraft | None = None, refusal: Refusal | None = None) -> None:
        self._before = before
        self._draft = draft
        self._refusal = refusal

    @property
    def facts(self) -> list[Fact]:
        """The facts that follow; a refusal is raised."""
        if self._draft is None:
            assert self._refusal is not None
            raise self._refusal
        return [fact for _, fact in self._draft.entries]

    @property
    def entries(self) -> list[tuple[str, Fact]]:
        """The facts that follow, each with its stream; a refusal is raised."""
        _ = self.facts
        assert self._draft is not None
        return self._draft.entries

    @property
    def versions(self) -> dict[str, int]:
        """What the decision is guarded by."""
        _ = self.facts
        assert self._draft is not None
        return self._draft.versions

    @property
    def after(self) -> Given:
        """How the run stands after these facts."""
        _ = self.facts
        assert self._draft is not None
        standing = told(self._before.standing, [_on(stream, fact) for stream, fact in self._draft.entries])
        check_decision(self._before.standing, self._draft.entries, standing)
        return Given(standing, self._before.remains)

    def then(self, *expected: Fact | type[Fact]) -> Given:
        """Exactly these facts, each by its kind or by its value; how the run stands then."""
        facts = self.facts

        assert [_name(fact) for fact in expected] == [type(fact).__name__ for fact in facts]
        assert [e for e in expected if isinstance(e, Fact)] == [
            fact for fact, e in zip(facts, expected, strict=True) if isinstance(e, Fact)
        ]
        return self.after

    def then_nothing(self) -> Given:
        """A repeat of what is already so: success, and no fact."""
        assert [] == self.facts
        return self._before

    def then_refused(self, kind: type[R]) -> R:
        """The refusal, which must be of this kind; nothing was changed."""
        assert self._refusal is not None, f"facts followed instead: {[type(fact).__name__ for fact in self.facts]}"
        assert isinstance(self._refusal, kind), repr(self._refusal)
        return self._refusal

    def fact(self, kind: type[F]) -> F:
        """The one fact of this kind among those that follow."""
        (found,) = [fact for fact in self.facts if isinstance(fact, kind)]
        return found


def given(*facts: Told) -> Given:
    """How a run stands after these facts."""
    nothing = Standing(run_id=RUN, run=run.ABSENT, lease=lease.VACANT, effects=effects.EMPTY)
    return Given(told(nothing, flat(facts)))


def told(standing: Standing, facts: Iterable[Fact | On]) -> Standing:
    """The same after these facts, each folded into the stream that it belongs to."""
    named = list(facts)
    bare = [fact.fact if isinstance(fact, On) else fact for fact in named]
    return msgspec.structs.replace(
        standing,
        run=fold(run.evolve, standing.run, [fact for fact in bare if isinstance(fact, RunFact)]),
        lease=fold(lease.evolve, standing.lease, [fact for fact in bare if isinstance(fact, lease.LeaseFact)]),
        effects=fold(effects.evolve, standing.effects, [fact for fact in bare if isinstance(fact, effects.EffectFact)]),
        mark=_mark(standing.mark, bare),
        ends=_ends(standing.ends, bare),
        workspaces=_grounds(standing.workspaces, named),
    )


def _grounds(known: tuple[Workspace, ...], facts: Iterable[Fact | On]) -> tuple[Workspace, ...]:
    grounds: dict[str, Workspace | Unplaced] = {each.workspace_id: each for each in known}
    for each in facts:
        workspace_id, fact = each if isinstance(each, On) else (GROUND, each)
        if isinstance(fact, WorkspaceFact):
            grounds[workspace_id] = workspace.evolve(grounds.get(workspace_id, UNPLACED), fact)
    return tuple(ground for ground in grounds.values() if isinstance(ground, Workspace))


def _on(stream: str, fact: Fact) -> Fact | On:
    return On(stream.removeprefix("workspace-"), fact) if stream.startswith("workspace-") else fact


def on(workspace_id: str, *facts: Told) -> list[On]:
    """The facts of that workspace."""
    return [On(workspace_id, each.fact if isinstance(each, On) else each) for each in flat(facts)]


def ground_citation(version: int, workspace_id: str = GROUND) -> str:
    """The citation of the workspace's nth fact."""
    return f"{workspace_stream(workspace_id)}@{version}"


def lease_citation(version: int) -> str:
    """The citation of the lease's nth fact."""
    return f"{lease_stream(RUN)}@{version}"


def run_citation(version: int) -> str:
    """The citation of the run's nth fact."""
    return f"{run.run_stream(RUN)}@{version}"


def effects_citation(version: int) -> str:
    """The citation of the effect ledger's nth fact."""
    return f"{effects_stream(RUN)}@{version}"


def _mark(mark: LeaseMark | None, facts: Iterable[Fact]) -> LeaseMark | None:
    for fact in facts:
        if isinstance(fact, FenceBumped | LeaseBound):
            deadline = NOON.mono + (fact.granted_at - NOON.wall).total_seconds() + fact.ttl_s
            mark = LeaseMark(fence=fact.fence, deadline=deadline, renewed_at=fact.granted_at)
    return mark


def _ends(ends: float | None, facts: Iterable[Fact]) -> float | None:
    for fact in facts:
        if isinstance(fact, LeaseReserved):
            ends = _mono(fact.lapses_at)
        elif isinstance(fact, FenceBumped | LeaseBound):
            ends = None if fact.slice_ends_at is None else _mono(fact.slice_ends_at)
        elif isinstance(fact, lease.LeaseFact) and not isinstance(fact, SliceEnded):
            ends = None
    return ends


def _mono(instant: datetime) -> float:
    return NOON.mono + (instant - NOON.wall).total_seconds()


def flat(facts: Iterable[Told]) -> Iterable[Fact | On]:
    """The facts of these lists of facts, in order."""
    for fact in facts:
        if isinstance(fact, Fact | On):
            yield fact
        else:
            yield from flat(fact)


def _name(fact: Fact | type[Fact]) -> str:
    return (type(fact) if isinstance(fact, Fact) else fact).__name__
