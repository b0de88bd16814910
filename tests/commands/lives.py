"""Lives of runs, one for every state and reason that there can be, and what 'why' must say of each."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from commands import ending, explaining, steering, workers
from domain.handing import Park
from tests.commands.absent import GRACE_S, connected, dropped
from tests.commands.ground import placed, saw, see, standing
from tests.commands.test_reservations import reserved
from tests.commands.test_timeouts import timeout_id
from tests.commands.world import ADMIN, World, leader, plain, text

ADA = leader("ada")


class Told(NamedTuple):
    """What 'why' must say of a run: its state and reason, the last facts that led there, and what comes next."""

    state: str
    reason: str | None
    last: tuple[str, ...]
    next: str


async def queued(world: World) -> str:
    return await world.submit()


async def expired(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=10)
    await world.later(10)
    return run_id


async def detached(world: World) -> str:
    run_id, _ = await world.held("w1")
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(1)
    return run_id


async def sliced(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=10, hold=5)
    await world.later(5)
    await world.later(10)
    return run_id


async def handed_back(world: World) -> str:
    run_id, fence = await world.held("w1")
    await ending.hand_back(world.desk, ADMIN, run_id, fence)
    return run_id


async def stalled(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=900, quiet_after_s=30, on_quiet="fail_attempt")
    await world.later(30)
    return run_id


async def retried(world: World) -> str:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, "failed", error="no luck")
    return run_id


async def waiting(world: World, kind: Any = "waiting_input", *, keep: bool = False, **wish: Any) -> str:
    run_id, fence = await world.held("w1", **wish)
    if kind == "paused":
        await steering.pause(world.desk, ADMIN, run_id)
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind=kind, keep_lease=keep))
    return run_id


async def answered(world: World) -> str:
    run_id = await waiting(world)
    await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    return run_id


async def paused(world: World) -> str:
    run_id = await world.submit()
    await steering.pause(world.desk, ADMIN, run_id)
    return run_id


async def resumed(world: World) -> str:
    run_id = await paused(world)
    await steering.resume(world.desk, ADMIN, run_id)
    return run_id


async def deserted(world: World, **wish: Any) -> str:
    run_id, _ = await world.held("w1", ttl=900, leader_id="ada", **wish)
    await dropped(world)
    await world.later(GRACE_S)
    return run_id


async def held(world: World) -> str:
    return (await world.held("w1"))[0]


async def set_aside(world: World) -> str:
    await world.worker("w1")
    return (await reserved(world))[0]


async def judged(world: World, verdict: Any = None) -> str:
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    await world.close(run_id, fence, result=1)
    if verdict is not None:
        await steering.verdict(world.desk, ADA, run_id, verdict, text(None))
    return run_id


async def closed(world: World, outcome: Any, **close: Any) -> str:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, outcome, **close)
    return run_id


async def cancelled(world: World) -> str:
    run_id, _ = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.later(10)
    return run_id


async def exhausted(world: World) -> str:
    run_id, _ = await world.held("w1", ttl=10, attempts=1)
    await world.later(10)
    return run_id


async def given_up(world: World) -> str:
    async with connected(world):
        run_id, _ = await world.held("w1", ttl=900, leader_id="ada", total_after_s=100)
        await world.later(100)
        await steering.acknowledge_timeout(world.desk, ADMIN, run_id, timeout_id(world, run_id), "abort")
    return run_id


async def bereft(world: World, **wish: Any) -> str:
    run_id, _, workspace_id = await standing(world, **wish)
    await see(world, workspace_id, saw("gone", reason="PodDeleted"))
    return run_id


async def never_made(world: World, **wish: Any) -> str:
    run_id, fence = await world.held("w1", **wish)
    workspace_id = await placed(world, run_id, fence)
    await see(world, workspace_id, saw("ended", reason="PodFailed"))
    return run_id


GRANTED = ("lease.fence_bumped", "run.attempt_started")
CASES: dict[str, tuple[Callable[[World], Awaitable[str]], Told]] = {
    "submitted": (queued, Told("queued", "submitted", ("run.submitted",), "because no worker is registered")),
    "expired": (expired, Told("queued", "expired", ("run.worker_timeout", "run.attempt_ended"), "as attempt 2")),
    "detached": (detached, Told("queued", "detached", ("run.worker_timeout", "run.attempt_ended"), "as attempt 2")),
    "slice over": (sliced, Told("queued", "slice_ended", ("lease.expired", "run.attempt_ended"), "(in 1 s)")),
    "handed back": (handed_back, Told("queued", "handed_back", ("run.attempt_ended",), "(in 1 s)")),
    "stalled": (stalled, Told("queued", "stalled", ("run.worker_timeout", "run.attempt_ended"), "(in 10 s)")),
    "failed, to be retried": (retried, Told("queued", "retry", ("run.closed",), "(in 10 s)")),
    "answered": (answered, Told("queued", "answered", ("run.input_provided",), "as attempt 2")),
    "resumed": (resumed, Told("queued", "resumed", ("run.resumed",), "because no worker is registered")),
    "its ground lost, to be tried on a fresh one": (
        lambda world: bereft(world, on_workspace_lost="retry_fresh"),
        Told("queued", "workspace_lost", ("workspace.lost", "run.attempt_ended"), "as attempt 2"),
    ),
    "its ground never made, to be tried again": (
        never_made,
        Told("queued", "provision_failed", ("workspace.provision_faulted", "run.attempt_ended"), "(in 10 s)"),
    ),
    "reserved": (set_aside, Told("reserved", "submitted", ("lease.reserved",), "binds its reservation")),
    "running": (held, Told("running", None, GRANTED, "worker 'w1' under fence 1 goes on; unless it renews")),
    "waiting for input": (
        waiting, Told("waiting_input", "asked_by_worker", ("run.parked",), "answers its question"),
    ),
    "waiting for a peer": (
        lambda world: waiting(world, "waiting_peer", keep=True),
        Told("waiting_peer", "asked_by_worker", ("run.parked",), "worker 'w1' under fence 1 keeps its lease"),
    ),
    "waiting to be taken over": (
        lambda world: waiting(world, "waiting_takeover"),
        Told("waiting_takeover", "asked_by_worker", ("run.parked",), "until an operator resumes it"),
    ),
    "waiting to be taken over because its ground is lost": (
        lambda world: bereft(world, on_workspace_lost="park"),
        Told("waiting_takeover", "workspace_lost", ("workspace.lost", "run.attempt_ended", "run.parked"),
             "until an operator resumes it"),
    ),
    "paused by its worker, as it was asked to": (
        lambda world: waiting(world, "paused"),
        Told("paused", "asked_by_principal", ("run.pause_requested", "run.parked"), "until an operator resumes it"),
    ),
    "paused by its leader": (
        paused, Told("paused", "asked_by_principal", ("run.pause_requested", "run.parked"), "it is paused until"),
    ),
    "paused because its leader is gone": (
        lambda world: deserted(world, on_leader_gone="park"),
        Told("paused", "leader_gone", ("run.attempt_ended", "run.parked"), "its leader 'ada' or an operator resumes"),
    ),
    "waiting for the verdict": (
        judged, Told("waiting_verdict", None, ("run.closed",), "gives the verdict on the worker's outcome 'succeeded'"),
    ),
    "succeeded": (
        lambda world: closed(world, "succeeded"), Told("succeeded", "closed", ("run.closed",), "never changes"),
    ),
    "failed": (
        lambda world: closed(world, "failed", error="x", retryable=False),
        Told("failed", "closed", ("run.closed",), "retry makes a new run like it"),
    ),
    "judged well": (
        lambda world: judged(world, "succeeded"),
        Told("succeeded", "verdict", ("run.closed", "run.verdict_rendered"), "never changes"),
    ),
    "judged badly": (
        lambda world: judged(world, "failed"),
        Told("failed", "verdict", ("run.closed", "run.verdict_rendered"), "never changes"),
    ),
    "cancelled": (
        cancelled,
        Told("cancelled", "cancelled", ("run.cancel_requested", "run.attempt_ended", "run.settled"), "never changes"),
    ),
    "cancelled because its leader is gone": (
        deserted,
        Told("cancelled", "leader_gone", ("presence.leader_gone", "run.worker_timeout", "run.attempt_ended",
                                          "run.settled"), "nothing: the run is cancelled (leader_gone)"),
    ),
    "aborted": (
        exhausted,
        Told("aborted", "attempts_exhausted", ("run.worker_timeout", "run.attempt_ended", "run.settled"), "never"),
    ),
    "aborted by its leader": (
        given_up,
        Told("aborted", "timeout_aborted", ("run.worker_timeout", "run.timeout_acknowledged", "run.attempt_ended",
                                            "run.settled"), "never changes"),
    ),
    "lost": (
        lambda world: closed(world, "failed", error={"code": "exit_unknown"}, retryable=False),
        Told("lost", "exit_unknown", ("run.closed", "run.settled"), "nothing: the run is lost (exit_unknown)"),
    ),
    "lost with its ground": (
        lambda world: bereft(world, on_workspace_lost="settle_lost"),
        Told("lost", "workspace_lost", ("workspace.lost", "run.attempt_ended", "run.settled"),
             "nothing: the run is lost (workspace_lost)"),
    ),
    "aborted because its ground was never made": (
        lambda world: never_made(world, attempts=1),
        Told("aborted", "attempts_exhausted", ("workspace.provision_faulted", "run.attempt_ended", "run.settled"),
             "never changes"),
    ),
}  # fmt: skip


def explained(world: World, run_id: str) -> Any:
    """The explanation as it travels."""
    return plain(explaining.explain(world.desk, ADMIN, run_id))


def topics(why: Any) -> list[str]:
    """What the facts that it follows from are called, in order."""
    return [fact["topic"].removesuffix(".v1") for fact in why["because"]]
