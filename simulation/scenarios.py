"""Canonical scenarios: the ways in which runs go, each as a short list of messages, moments and other happenings.

They are what `simulation.crashing` kills the service under, at every single step. Each is a generator over a cast: it
yields a message to be delivered, seconds to pass, or something that happens to a link or a body. Whoever acts learns
from replies, so that a message may be made from what the one before it was answered.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping

from commands import effects, steering, submitting
from commands.submitting import Wish
from domain.presence import DropCause
from domain.submission import Policy, Submit
from domain.values import NULL, to_json
from domain.workspace_facts import LossReason
from simulation.cast import Cast
from simulation.messages import Message
from simulation.truth import SCOPES

Happening = Callable[[], Awaitable[None]]
Beat = Message | float | Happening | None
Scenario = Callable[[Cast], Iterator[Beat]]

TTL_S = 5.0
PLAIN_POLICY = Policy(lease_ttl_s=TTL_S, retry_base_s=1.0)


def _submit(cast: Cast, policy: Policy = PLAIN_POLICY) -> Message:
    command = Submit(leader_id="lea", payload=to_json({"work": 1}), policy=policy)
    return cast.leader.message(
        "submits", lambda desk, caller: submitting.submit(desk, caller, Wish(command=command)), cast.leader.submitted
    )


def _run(cast: Cast) -> str:
    return cast.leader.runs[-1]


def done_by_its_worker(cast: Cast) -> Iterator[Beat]:
    """Claimed, saved, an effect begun and completed, closed."""
    ada = cast.workers[0]
    yield _submit(cast)
    yield ada.claim()
    yield ada.save()
    yield ada.effect()
    yield ada.effect()
    yield ada.close()


def taken_over(cast: Cast) -> Iterator[Beat]:
    """Its worker dies with an effect begun; another one goes on, and its leader finds out about the effect."""
    ada, bob, lea = *cast.workers[:2], cast.leader
    yield _submit(cast)
    yield ada.claim()
    yield ada.effect()
    yield TTL_S + 1.0
    yield bob.claim()
    yield lea.message(
        "found out",
        lambda desk, caller: effects.reconcile_effect(desk, caller, _run(cast), None, ("mail", "not_done", NULL)),
    )
    yield bob.effect()
    yield bob.close()


def closed_late(cast: Cast) -> Iterator[Beat]:
    """Its lease expires, nobody takes it over, and its worker closes it all the same."""
    ada = cast.workers[0]
    yield _submit(cast)
    yield ada.claim()
    yield ada.effect()
    yield TTL_S + 1.0
    yield ada.effect()
    yield ada.close()


def parked_and_answered(cast: Cast) -> Iterator[Beat]:
    """It asks, is answered, and goes on with somebody else."""
    ada, bob, lea = *cast.workers[:2], cast.leader
    yield _submit(cast)
    yield ada.claim()
    yield ada.park()
    yield lea.message("answers", lambda desk, caller: steering.answer(desk, caller, _run(cast), NULL))
    yield bob.claim()
    yield bob.close()


def cancelled_in_the_middle(cast: Cast) -> Iterator[Beat]:
    """It has saved, and its leader has enough; nobody answers within the grace."""
    ada, lea = cast.workers[0], cast.leader
    yield _submit(cast)
    yield ada.claim()
    yield ada.save()
    yield lea.message("cancels", lambda desk, caller: steering.cancel(desk, caller, _run(cast), keep_workspaces=False))
    yield cast.world.desk.timers.cancel_grace_s + 0.5
    yield ada.heartbeat()
    yield ada.report_stop()


def left_by_its_leader(cast: Cast) -> Iterator[Beat]:
    """Its leader is there, drops, and stays away for longer than its grace."""
    ada, world = cast.workers[0], cast.world

    async def drop(cause: DropCause = "half_open") -> None:
        for link in list(world.attendance.links):
            await world.attendance.drop(link, cause, world.clock.served_s)

    yield _submit(cast)
    yield _submit(cast, Policy(lease_ttl_s=TTL_S, on_leader_gone="park"))
    yield ada.claim()
    yield drop
    yield world.desk.timers.leader_grace_s / 2
    yield ada.heartbeat()
    yield world.desk.timers.leader_grace_s / 2 + 1.0


def reserved_ahead(cast: Cast) -> Iterator[Beat]:
    """One reservation is bound and closed, the other lapses."""
    bob = cast.workers[1]
    yield _submit(cast)
    yield bob.reserve()
    yield bob.bind()
    yield bob.close()
    yield _submit(cast)
    yield bob.reserve()
    yield cast.world.desk.timers.reservation_s + 0.5


def handed_on_by_its_slice(cast: Cast) -> Iterator[Beat]:
    """Its slice ends unanswered, and another worker goes on."""
    ada, bob = cast.workers[:2]
    yield _submit(cast, Policy(lease_ttl_s=TTL_S, max_hold_s=4.0))
    yield ada.claim()
    yield 4.5
    yield ada.save()
    yield TTL_S + 2.0
    yield bob.claim()
    yield bob.close()


def judged_by_its_leader(cast: Cast) -> Iterator[Beat]:
    """Its worker closes it, and its leader judges."""
    ada, lea = cast.workers[0], cast.leader
    yield _submit(cast, Policy(lease_ttl_s=TTL_S, verdict_by="leader"))
    yield ada.claim()
    yield ada.save()
    yield ada.close()
    yield lea.message("judges", lambda desk, caller: steering.verdict(desk, caller, _run(cast), "succeeded", NULL))


def _end_body(cast: Cast, reason: LossReason, code: int | None = None) -> Happening:
    async def end() -> None:
        for body in cast.world.truth.alive():
            body.end = ("ended", reason, code)

    return end


def tried_on_fresh_ground(cast: Cast) -> Iterator[Beat]:
    """What it stands on is lost; the next attempt has a ground of its own."""
    ada, holder, lea = cast.workers[0], cast.holders["ada"], cast.leader
    yield _submit(cast, Policy(lease_ttl_s=TTL_S, on_workspace_lost="retry_fresh"))
    yield ada.claim()
    yield holder.place()
    yield holder.attach()
    yield _end_body(cast, "Evicted")
    yield holder.tell()
    yield ada.claim()
    yield holder.place()
    yield holder.attach()
    yield holder.let_go()
    yield ada.close()
    yield lea.submit()


def lost_by_an_exit_that_nobody_explains(cast: Cast) -> Iterator[Beat]:
    """What it stands on exits; its holder is asked, and is not heard any more."""
    ada, holder = cast.workers[0], cast.holders["ada"]
    yield _submit(cast)
    yield ada.claim()
    yield holder.place()
    yield holder.attach()
    yield _end_body(cast, "ProcessExited", 9)
    yield holder.tell()
    yield TTL_S + 1.0


def watched_and_unseen(cast: Cast) -> Iterator[Beat]:
    """An observer lists its scope, dies, is followed by another, and a body that is missing in its list is lost."""
    ada, holder, (obi, ova) = cast.workers[0], cast.holders["ada"], cast.observers
    yield _submit(cast, Policy(lease_ttl_s=60.0, on_workspace_lost="park"))
    yield cast.leader.watch(SCOPES[0])
    yield obi.watch()
    yield ada.claim()
    yield holder.place(SCOPES[0])
    yield holder.attach()
    yield obi.listing()
    yield TTL_S + 1.0
    yield ova.watch()
    yield _end_body(cast, "NodeLost")
    yield ova.listing()


def cut_by_a_restart(cast: Cast) -> Iterator[Beat]:
    """A turn waits and another is not delivered, and what runs inside starts anew."""
    ada, holder = cast.workers[0], cast.holders["ada"]

    async def restart() -> None:
        for body in cast.world.truth.alive():
            body.starts, body.last_end = body.starts + 1, "OOMKilled"

    yield _submit(cast)
    yield ada.claim()
    yield holder.place()
    yield holder.attach()
    yield holder.admit()
    yield holder.turn()
    yield holder.admit()
    yield restart
    yield holder.tell()
    yield cast.world.desk.timers.admission_s + 0.5
    yield ada.heartbeat()
    yield ada.close()


SCENARIOS: Mapping[str, Scenario] = {
    each.__name__: each
    for each in (
        done_by_its_worker, taken_over, closed_late, parked_and_answered, cancelled_in_the_middle, left_by_its_leader,
        reserved_ahead, handed_on_by_its_slice, judged_by_its_leader, tried_on_fresh_ground,
        lost_by_an_exit_that_nobody_explains, watched_and_unseen, cut_by_a_restart,
    )
}  # fmt: skip
