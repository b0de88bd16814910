"""Ground in the tests of commands: what a run stands on, what is seen of it, and who watches it."""

from typing import Any

from commands import looking, observing, scopes, workspaces
from commands.desk import Caller
from domain.observing import Observation
from domain.placing import Attach
from domain.workspace import Workspace
from tests.commands.world import ADMIN, Shown, World, plain, text

SCOPE = "cluster-1"


def saw(kind: Any, **what: Any) -> Observation:
    """One thing that was seen."""
    return Observation(kind=kind, **what)


async def placed(
    world: World, run_id: str, fence: int | None, *, caller: Caller = ADMIN, spec: object = None, **wish: Any
) -> str:
    """The id of a new workspace of the run; ``provider`` and ``scope`` may be named."""
    wanted = workspaces.Wish(
        provider=wish.get("provider", "external"), scope=wish.get("scope"), spec=text({} if spec is None else spec)
    )
    done = await workspaces.place(world.desk, caller, run_id, fence, wanted)
    return str(done.answer["workspace_id"])


async def see(world: World, workspace_id: str, *seen: Observation, caller: Caller = ADMIN) -> Shown:
    """The workspace after these observations of it."""
    return dict(plain((await observing.observe(world.desk, caller, workspace_id, seen)).answer))


async def attached(world: World, workspace_id: str, identity: str = "body-1", incarnation: int = 0) -> Shown:
    """The workspace once its run stands on this body."""
    command = Attach(identity=identity, incarnation=incarnation)
    return dict(plain((await workspaces.attach(world.desk, ADMIN, workspace_id, command)).answer))


async def standing(world: World, worker_id: str = "w1", **wish: Any) -> tuple[str, int, str]:
    """A new run that the worker holds, its fence, and a workspace that it stands on; ``provider`` and ``scope`` too."""
    ground = {name: wish.pop(name) for name in ("provider", "scope") if name in wish}
    run_id, fence = await world.held(worker_id, **wish)
    workspace_id = await placed(world, run_id, fence, **ground)
    await attached(world, workspace_id)
    return run_id, fence, workspace_id


async def observer(world: World, worker_id: str = "obs", scope: str = SCOPE, **wish: Any) -> tuple[str, int]:
    """The run of an observer of this scope, and its fence."""
    policy = {"quiet_after_s": 0.0, "total_after_s": 0.0, **wish}
    return await world.held(worker_id, queue="_observers", concurrency_key=scope, **policy)


async def report(
    world: World, watch: tuple[str, int | None], *seen: tuple[str, Observation], caller: Caller = ADMIN, **batch: Any
) -> Shown:
    """What a batch of this observer is answered."""
    run_id, fence = watch
    told = scopes.Batch(
        observer_id=batch.pop("observer_id", "obs"), run_id=run_id, fence=fence,
        scope=batch.pop("scope", SCOPE), seen=seen, **batch,
    )  # fmt: skip
    return dict(plain((await scopes.observe_scope(world.desk, caller, told)).answer))


def ground(world: World, workspace_id: str) -> Workspace:
    """The workspace as the journal has it."""
    return looking.find(world.desk, ADMIN, workspace_id)


def shown(world: World, workspace_id: str) -> Shown:
    """The workspace as anybody is shown it."""
    return dict(plain(looking.show_workspace(world.desk, ADMIN, workspace_id)))
