"""A real journal with a real follower, and the acts of ``acts`` recorded in it on a clock that is moved by hand."""

import contextlib
import itertools
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from domain.decider import Draft
from domain.refusal import Refusal
from domain.standing import Standing, effects_stream, lease_stream
from domain.values import Moment
from domain.workspace import Workspace, workspace_stream
from journal.commit import Context, Decision, Entry, Journal
from journal.opening import open_journal
from projections.comparing import first_difference
from projections.document import document
from projections.refolding import Refolding, Start
from projections.runner import Runner
from projections.stored.catalogue import NAMES, PROJECTIONS
from projections.stored.database import create_tables, scratch
from projections.stored.projection import Projection
from tests.projections.acts import ACTS, NOON, TENANT, Act, Marks, ground_of

BOUND_S = 20.0
"""How long a follower may take before a test fails; it takes milliseconds."""


class World:
    """A journal that acts are recorded in."""

    def __init__(self) -> None:
        self.now: Moment = NOON
        self.marks = Marks()
        self.journal: Journal
        self._ids = itertools.count(1)

    def clock(self) -> Moment:
        """The present moment."""
        return self.now

    def mint(self) -> str:
        """A fresh id."""
        return f"{next(self._ids):032x}"

    def standing(self, run_id: str) -> Standing:
        """How a run stands, by the journal."""
        load = self.journal.streams.load
        ground = load(workspace_stream(ground_of(run_id)))
        return Standing(
            run_id=run_id,
            run=load(f"run-{run_id}"),
            lease=load(lease_stream(run_id)),
            effects=load(effects_stream(run_id)),
            mark=self.marks.get(run_id),
            workspaces=(ground,) if isinstance(ground, Workspace) else (),
        )

    async def act(self, run_id: str, act: Act | str, after_s: float = 0.0) -> bool:
        """Whether the act was recorded that many seconds later; false when the domain refused it."""
        self.now = self.now.after(after_s)
        chosen = ACTS[act] if isinstance(act, str) else act
        drafts: list[Draft] = []

        def decide(now: Moment) -> Decision[None]:
            standing = self.standing(run_id)
            drafts.append(chosen(standing, now))
            entries = [Entry(stream, fact, run_id) for stream, fact in drafts[-1].entries]
            return Decision(entries, getattr(drafts[-1], "versions", standing.versions), None)

        try:
            await self.journal.execute(
                [run_id], decide, Context(TENANT, "ada"), encode=lambda _: b"", decode=lambda _: None
            )
        except Refusal:
            return False
        self.marks.follow(run_id, drafts[-1], self.now)
        return True


@contextlib.asynccontextmanager
async def opened(data_dir: Path | None, world: World | None = None) -> AsyncIterator[World]:
    """A world on a journal in a directory, or in memory."""
    world = World() if world is None else world
    world.journal = await open_journal(data_dir, world.clock, mint=world.mint)
    try:
        yield world
    finally:
        await world.journal.close()


@contextlib.asynccontextmanager
async def followed(world: World, data_dir: Path, batch: int = 1_000) -> AsyncIterator[Runner]:
    """A follower of that world's journal."""
    runner = Runner(world.journal, data_dir, batch=batch)
    runner.start()
    try:
        yield runner
    finally:
        await runner.stop()


def refolded(world: World, upto: int, projections: Sequence[Projection] = PROJECTIONS) -> sqlite3.Connection:
    """Every read model in a database of its own, as a rebuild makes them."""
    made = scratch()
    for projection in projections:
        create_tables(made, projection.tables, "")
    refolding = Refolding(world.journal.store, [Start(projection) for projection in projections])
    refolding.finish(upto)
    for _, write in refolding.changes():
        write(made, "")
    return made


def differs(world: World, runner: Runner) -> object:
    """The first row in which a stored model differs from one that is folded anew from the journal; None when none."""
    found = []
    with runner.database.reading() as live:
        for name, model in runner.models.items():
            projection = PROJECTIONS[NAMES.index(name)]
            with contextlib.closing(refolded(world, model.position, [projection])) as again:
                found.append(first_difference(live, again, projection))
    return next((difference for difference in found if difference is not None), None)


def expected(world: World, run_id: str) -> dict[str, object]:
    """The document of a run by the streams of the journal."""
    standing = world.standing(run_id)
    return document(standing.known, standing.lease)
