"""Looking at workspaces: one, or a page of them, and who may.

A key sees the workspaces of the runs that it may see. A worker's key also sees those that its worker placed, and those
of a scope which its worker observes. Anything else is answered exactly like a workspace that does not exist.

A page is read off the live index: every workspace whose body may still be there. With ``run_id`` it is all that the run
ever stood on, as far as its latest ``REMEMBERED_MAX`` go. Asked for everything, or for a phase in which workspaces are
over, it takes from the read model which others there ever were; each is shown as its own facts have it, so what the
model says late is at most not there yet.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from commands.desk import Caller, Desk
from commands.showing import ever_of, workspace_of
from domain.lease import Lease, holder_of
from domain.run import Run, run_stream
from domain.standing import lease_stream
from domain.values import Value
from domain.workspace import OVER, Workspace, workspace_stream
from domain.workspace_refusals import WorkspaceUnknown
from projections.ground_document import whole
from projections.live.cards import WorkerKey
from projections.live.grounds import OBSERVERS_QUEUE, GroundCard

SCANNED_MAX = 1_000
"""Workspaces that are looked at for one page; one that few of them belong on ends early, and says where to go on."""

Named = tuple[int, str]
"""Where in the journal a workspace was placed, and its id."""
AskModel = Callable[[int, int], Awaitable[Sequence[Named]]]
"""The workspaces that the read model has after a place, at most so many, in order."""


class Wanted(Value, frozen=True, kw_only=True):
    """Which workspaces, at most how many, and after which place in the journal."""

    phase: str | None = None
    scope: str | None = None
    provider: str | None = None
    run_id: str | None = None
    limit: int = 100
    after: int = 0
    all: bool = False

    @property
    def everything(self) -> bool:
        """Whether those are wanted too whose bodies are gone."""
        return self.all or (self.run_id is None and self.phase in OVER)


def find(desk: Desk, caller: Caller, workspace_id: str) -> Workspace:
    """A workspace of the caller's tenant.

    Raises:
        WorkspaceUnknown: there is none under this id.
    """
    found = workspace_of(desk, workspace_id)
    if not isinstance(found, Workspace) or found.placed.tenant != caller.tenant:
        raise WorkspaceUnknown(workspace_id)
    return found


def show_workspace(desk: Desk, caller: Caller, workspace_id: str) -> dict[str, Any]:
    """One workspace, with every command that was acknowledged before.

    Raises:
        WorkspaceUnknown: there is none under this id, or none that the caller may see.
    """
    workspace = find(desk, caller, workspace_id)
    if not may_see(desk, caller, workspace):
        raise WorkspaceUnknown(workspace_id)
    return with_position(desk, document(desk, workspace), workspace_id)


def document(desk: Desk, workspace: Workspace) -> dict[str, Any]:
    """The workspace as it is shown, without the position of its last fact."""
    asserted = desk.evidence.grounds.last_asserted(workspace.workspace_id)
    shown = whole(workspace)
    shown["last_asserted_at"] = None if asserted is None else asserted.at
    shown["to_assert"] = to_assert(desk, workspace)
    return shown


def with_position(desk: Desk, shown: dict[str, Any], workspace_id: str) -> dict[str, Any]:
    """The document with the position of the workspace's last fact."""
    stream = workspace_stream(workspace_id)
    stored = desk.journal.store.stored_at(stream, desk.journal.streams.load(stream).version)
    return {**shown, "position": stored[0] if stored is not None else desk.journal.position}


def to_assert(desk: Desk, workspace: Workspace) -> bool:
    """Whether somebody still has to say that it is needed: its run is open, and it is neither over nor let go."""
    return not workspace.over and not workspace.teardown and workspace.placed.run_id in desk.live.cards


def list_workspaces(desk: Desk, caller: Caller, wanted: Wanted) -> dict[str, Any]:
    """A page in the order in which they were placed; ``next_cursor`` is null on the last one."""
    items: list[dict[str, Any]] = []
    cursor = wanted.after
    for order, workspace in _candidates(desk, wanted):
        if not _belongs(desk, caller, wanted, workspace):
            continue
        if len(items) == wanted.limit:
            return _page(desk, items, cursor)
        items.append(with_position(desk, document(desk, workspace), workspace.workspace_id))
        cursor = order
    return _page(desk, items, None)


async def list_everything(desk: Desk, caller: Caller, wanted: Wanted, ask: AskModel) -> dict[str, Any]:
    """A page of all that there ever were; it may be shorter than asked for and still not be the last one."""
    items: list[dict[str, Any]] = []
    found = await ask(wanted.after, SCANNED_MAX)
    known = {*found, *_indexed(desk, wanted)}
    upto = found[-1][0] if len(found) == SCANNED_MAX else None
    for order, workspace_id in sorted(one for one in known if upto is None or one[0] <= upto):
        workspace = workspace_of(desk, workspace_id)
        if not isinstance(workspace, Workspace) or not _belongs(desk, caller, wanted, workspace):
            continue
        items.append(with_position(desk, document(desk, workspace), workspace_id))
        if len(items) == wanted.limit:
            return _page(desk, items, order)
    return _page(desk, items, upto)


def _indexed(desk: Desk, wanted: Wanted) -> Iterator[Named]:
    """The workspaces after the cursor that the live index has."""
    for card in _cards(desk, wanted):
        if card.order > wanted.after and _may_match(wanted, card):
            yield card.order, card.workspace_id


def _page(desk: Desk, items: list[dict[str, Any]], cursor: int | None) -> dict[str, Any]:
    next_cursor = None if cursor is None else str(cursor)
    return {"items": items, "next_cursor": next_cursor, "position": desk.journal.position}


def _belongs(desk: Desk, caller: Caller, wanted: Wanted, workspace: Workspace) -> bool:
    if wanted.run_id not in (None, workspace.placed.run_id) or workspace.placed.tenant != caller.tenant:
        return False
    return _matches(wanted, workspace) and may_see(desk, caller, workspace)


def _candidates(desk: Desk, wanted: Wanted) -> Iterator[tuple[int, Workspace]]:
    """Workspaces after the cursor, in order, each with its place."""
    if wanted.run_id is not None:
        yield from _of_run(desk, wanted.run_id, wanted.after)
        return
    for order, workspace_id in _indexed(desk, wanted):
        found = workspace_of(desk, workspace_id)
        if isinstance(found, Workspace):
            yield order, found


def _of_run(desk: Desk, run_id: str, after: int) -> Iterator[tuple[int, Workspace]]:
    for workspace_id in ever_of(desk, run_id):
        stored = desk.journal.store.stored_at(workspace_stream(workspace_id), 1)
        found = workspace_of(desk, workspace_id)
        if stored is not None and stored[0] > after and isinstance(found, Workspace):
            yield stored[0], found


def _cards(desk: Desk, wanted: Wanted) -> Iterable[GroundCard]:
    """Cards in the order of their first fact: the index keeps them so."""
    if wanted.phase == "teardown":
        return desk.live.grounds.all_to_destroy()
    return list(desk.live.grounds.cards.values())


def _may_match(wanted: Wanted, card: GroundCard) -> bool:
    return wanted.scope in (None, card.scope) and wanted.provider in (None, card.provider)


def _matches(wanted: Wanted, workspace: Workspace) -> bool:
    if wanted.scope not in (None, workspace.placed.scope) or wanted.provider not in (None, workspace.provider):
        return False
    if wanted.phase == "teardown":
        return workspace.awaits_teardown
    return wanted.phase is None or workspace.phase == wanted.phase


def may_see(desk: Desk, caller: Caller, workspace: Workspace) -> bool:
    """Whether the principal's ids let it see this workspace."""
    if caller.role == "leader" and caller.leaders is not None:
        run = desk.journal.streams.load(run_stream(workspace.placed.run_id))
        return isinstance(run, Run) and run.leader_id in caller.leaders
    return caller.role != "worker" or is_concerned(desk, caller, workspace)


def is_concerned(desk: Desk, caller: Caller, workspace: Workspace) -> bool:
    """Whether the workspace is a worker's business: it placed it, holds its run or held it last, or observes it."""
    workers, placed = caller.workers, workspace.placed
    if workers is None or placed.worker in workers or _last_holder(desk, placed.run_id) in workers:
        return True
    return placed.scope is not None and any(_observes(desk, (caller.tenant, one), placed.scope) for one in workers)


def is_holder(desk: Desk, caller: Caller, workspace: Workspace) -> bool:
    """Whether the caller holds the workspace's run, or held it last."""
    return caller.workers is None or _last_holder(desk, workspace.placed.run_id) in caller.workers


def _observes(desk: Desk, worker: WorkerKey, scope: str) -> bool:
    """Whether the worker holds the run of the scope's observer, whether or not it has reported yet."""
    watching, key = desk.evidence.grounds.observer((worker[0], scope)), (worker[0], OBSERVERS_QUEUE, scope)
    for run_id in desk.live.limits.held_by(worker):
        card = desk.live.cards.get(run_id)
        if (watching is not None and watching.run_id == run_id) or (card is not None and card.key == key):
            return True
    return False


def _last_holder(desk: Desk, run_id: str) -> str | None:
    lease: Lease = desk.journal.streams.load(lease_stream(run_id))
    return holder_of(lease) or (lease.last.worker if lease.last is not None else None)


def workspaces_of(desk: Desk, run_id: str) -> list[Workspace]:
    """The workspaces of a run whose bodies may still be there."""
    return _loaded(desk, desk.live.grounds.of_run(run_id))


def to_destroy_by(desk: Desk, worker: WorkerKey) -> list[Workspace]:
    """The workspaces that a worker placed and whose bodies are to be destroyed."""
    return _loaded(desk, (card.workspace_id for card in desk.live.grounds.to_destroy(worker)))


def _loaded(desk: Desk, ids: Iterable[str]) -> list[Workspace]:
    found = (workspace_of(desk, workspace_id) for workspace_id in ids)
    return [workspace for workspace in found if isinstance(workspace, Workspace)]
