"""The small aggregates for ``tests.domain.written``: what is decided of workers, leaders, queues and effects.

Each state is the facts that led to it; what is asked of it is asked of every other, too.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from domain import effects, presence, queue, worker
from domain.decider import fold
from domain.effects import ClaimEffect
from domain.presence import Connect, LeaderConnected, LeaderDisconnected, LeaderGone, LeaderReturned, LeaderVanished
from domain.presence import PresenceReseeded as Reseeded
from domain.queue import QueueConfigured
from domain.refusal import Refusal
from domain.values import Fact, digest
from domain.worker import (
    Blame,
    WorkerDetached,
    WorkerDrained,
    WorkerGone,
    WorkerLeft,
    WorkerQuarantined,
    WorkerRegistered,
    WorkerReleased,
)
from tests.domain.facts import (
    LEADER,
    completed,
    effect_failed,
    intended,
    made_ambiguous,
    reconciled,
)
from tests.domain.kit import noon, text
from tests.domain.written import plain, refused, together

Ask = Callable[[], Any]
Asks = Mapping[str, Ask]
Page = dict[str, Callable[[], str]]


def said(ask: Ask) -> str:
    """What comes of it, in full: facts by name, any other value, nothing, or a refusal."""
    try:
        answer = ask()
    except Refusal as refusal:
        return refused(refusal)
    if isinstance(answer, list | tuple):
        return "\n  ".join(_one(each) for each in answer) or "nothing"
    return "fine" if answer is None else _one(answer)


def _one(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_one(each) for each in value) or "nothing"
    return f"{type(value).__name__} {plain(value)}" if isinstance(value, msgspec.Struct) else plain(value)


def on_each(states: Mapping[str, tuple[Fact, ...]], evolve: Any, initial: Any, ask: Any) -> Callable[[], str]:
    """What is said after each of these histories."""

    def after(*facts: Fact) -> Any:
        return ask(fold(evolve, initial, facts))

    return lambda: together((name, said(partial(after, *facts))) for name, facts in states.items())


def each(asks: Asks) -> Callable[[], str]:
    """What is said to each of these."""
    return lambda: together((name, said(ask)) for name, ask in asks.items())


REGISTERED = WorkerRegistered(worker_id="ada", labels={"gpu": "a"}, slots=2)
BLAMED = WorkerQuarantined(
    worker_id="ada", reason="ssh_timeout", cites=("run-r1@4",), quarantined_at=noon(1), until=noon(61)
)
WORKERS: dict[str, tuple[Fact, ...]] = {
    "unknown": (),
    "known": (REGISTERED,),
    "draining": (REGISTERED, WorkerDrained(worker_id="ada", by=LEADER)),
    "detached": (REGISTERED, WorkerDetached(worker_id="ada", detached_at=noon(5), window_s=10)),
    "blamed": (REGISTERED, BLAMED),
    "blamed and gone": (REGISTERED, BLAMED, WorkerGone(worker_id="ada", last_seen_at=noon(9))),
    "blamed, left and back": (REGISTERED, BLAMED, WorkerLeft(worker_id="ada"), REGISTERED),
    "released": (REGISTERED, BLAMED, WorkerReleased(worker_id="ada", cause="probe", by="jackline")),
    "blamed unknown": (BLAMED,),
    "drained unknown": (WorkerDrained(worker_id="ada", by=LEADER),),
}


def _worker(ask: Any) -> Callable[[], str]:
    return on_each(WORKERS, worker.evolve, worker.UNREGISTERED, ask)


WORKER_PAGE: Page = {
    "is": _worker(lambda state: state),
    "register": _worker(lambda state: worker.register(state, "ada", {"gpu": "a"}, 2)),
    "register with more slots": _worker(lambda state: worker.register(state, "ada", {"gpu": "a"}, 3)),
    "register with other labels": _worker(lambda state: worker.register(state, "ada", {}, 2)),
    "drain": _worker(lambda state: worker.drain(state, "ada", LEADER)),
    "leave": _worker(lambda state: worker.leave(state, "ada", [])),
    "leave holding": _worker(lambda state: worker.leave(state, "ada", ["r1", "r2"])),
    "gone": _worker(lambda state: worker.gone(state, "ada", noon(90))),
    "detach": _worker(lambda state: worker.detach(state, "ada", noon(5), 10)),
    "blame": _worker(
        lambda state: worker.quarantine(
            state, Blame(worker_id="ada", reason="ssh_timeout", cites=("run-r1@4",)), noon(2), 60
        )
    ),
    "release": _worker(lambda state: worker.release(state, "ada", "operator", LEADER)),
    "require": _worker(lambda state: worker.require(state, "ada")),
    "grant": _worker(lambda state: worker.may_be_granted(state, "ada", cooled=False, probing=0)),
    "grant cooled": _worker(lambda state: worker.may_be_granted(state, "ada", cooled=True, probing=0)),
    "grant cooled and probing": _worker(lambda state: worker.may_be_granted(state, "ada", cooled=True, probing=1)),
    "poison": each({line: partial(worker.poison_class, line) for line in (*worker.POISON_CLASSES, "other")}),
    "stream": each({"stream": lambda: worker.worker_stream("acme", "ada")}),
}


def _linked(name: str = "c1", kind: Any = "stream", boot: str | None = "b1", at: float = 1) -> LeaderConnected:
    return LeaderConnected(
        leader_id="lea", connection_id=name, kind=kind, boot_id=boot, ttl_s=30, connected_at=noon(at)
    )


def _dropped(name: str = "c1", at: float = 5) -> LeaderDisconnected:
    return LeaderDisconnected(leader_id="lea", connection_id=name, cause="closed", disconnected_at=noon(at))


VANISHED = LeaderVanished(leader_id="lea", zero_since=noon(5))
GONE = LeaderGone(leader_id="lea", zero_since=noon(5), grace_s=60)
SESSION = _linked("s1", "session", None)
LEADERS: dict[str, tuple[Fact, ...]] = {
    "never seen": (),
    "there": (_linked(),),
    "there twice": (_linked(), _linked("c2", "socket")),
    "there by a session": (SESSION,),
    "there by both": (_linked(), SESSION),
    "dropped one of two": (_linked(), _linked("c2"), _dropped()),
    "stopping": (_linked(), _dropped()),
    "vanished": (_linked(), _dropped(), VANISHED),
    "gone": (_linked(), _dropped(), VANISHED, GONE),
    "back": (
        _linked(),
        _dropped(),
        VANISHED,
        GONE,
        _linked("c3", at=9),
        LeaderReturned(leader_id="lea", away_since=noon(5)),
    ),
    "returned without a link": (
        _linked(),
        _dropped(),
        VANISHED,
        GONE,
        LeaderReturned(leader_id="lea", away_since=noon(5)),
    ),
    "reseeded": (_linked(), Reseeded(leader_id="lea", zero_since=noon(7), cause="boot")),
    "reseeded with a session": (_linked(), SESSION, Reseeded(leader_id="lea", zero_since=noon(7), cause="boot")),
    "gone and reseeded": (
        _linked(),
        _dropped(),
        VANISHED,
        GONE,
        Reseeded(leader_id="lea", zero_since=noon(7), cause="boot"),
    ),
    "full": tuple(_linked(f"c{n}") for n in range(presence.CONNECTIONS_MAX)),
}


def _leader(ask: Any, **but: Any) -> Callable[[], str]:
    states = {name: facts for name, facts in LEADERS.items() if name not in but}
    return on_each(states, presence.evolve, presence.NEVER_SEEN, ask)


def _connect(name: str, kind: Any = "stream") -> Any:
    wish = Connect(leader_id="lea", connection_id=name, kind=kind, boot_id="b2", ttl_s=20)
    return lambda state: presence.connect(state, wish, noon(70))


LEADER_PAGE: Page = {
    "is": _leader(lambda state: state, full=True),
    "known, absent": _leader(lambda state: [[state.known], [presence.absent(state)]]),
    "connect": _leader(_connect("c1")),
    "connect another": _leader(_connect("x1")),
    "connect otherwise": _leader(_connect("c1", "session")),
    "disconnect": _leader(lambda state: presence.disconnect(state, "lea", "c1", "half_open", noon(70))),
    "disconnect by our stop": _leader(
        lambda state: presence.disconnect(state, "lea", "c1", "server_stopping", noon(70))
    ),
    "reseed at a boot": _leader(lambda state: presence.reseed(state, "lea", "boot", noon(70))),
    "reseed by a run": _leader(lambda state: presence.reseed(state, "lea", "submitted", noon(70))),
    "declare just before its grace": _leader(lambda state: presence.declare_gone(state, "lea", 59.9, 60)),
    "declare": _leader(lambda state: presence.declare_gone(state, "lea", 60, 60)),
    "stream": each({"stream": lambda: presence.presence_stream("acme", "lea")}),
}

QUEUES: dict[str, tuple[Fact, ...]] = {
    "unconfigured": (),
    "bounded": (QueueConfigured(queue="mail", max_leases=4, max_per_key=2),),
    "bounded twice": (
        QueueConfigured(queue="mail", max_leases=4, max_per_key=2),
        QueueConfigured(queue="mail", max_leases=None, max_per_key=3),
    ),
}  # fmt: skip


def _queue(ask: Any) -> Callable[[], str]:
    return on_each(QUEUES, queue.evolve, queue.UNCONFIGURED, ask)


QUEUE_PAGE: Page = {
    "is": _queue(lambda state: state),
    "configure": _queue(lambda state: queue.configure(state, "mail", 4, 2)),
    "unbound": _queue(lambda state: queue.configure(state, "mail", None, 1)),
    "stream": each({"stream": lambda: queue.queue_stream("acme", "mail")}),
}

EFFECTS: dict[str, tuple[Fact, ...]] = {
    "none": (),
    "intended": (intended(command_id="c1"),),
    "completed": (intended(), completed()),
    "failed": (intended(), effect_failed()),
    "ambiguous": (intended(), made_ambiguous()),
    "done": (intended(), made_ambiguous(), reconciled("done", outcome=4)),
    "not done": (intended(), made_ambiguous(), reconciled("not_done")),
    "completed out of nothing": (completed(),),
    "full": tuple(intended(f"k{n}") for n in range(effects.EFFECTS_MAX)),
}


def _effect(ask: Any, **but: Any) -> Callable[[], str]:
    states = {name: facts for name, facts in EFFECTS.items() if name not in but}
    return on_each(states, effects.evolve, effects.EMPTY, ask)


def claim(fence: int = 2, payload: object = 1, command_id: str | None = None, key: str = "mail") -> Any:
    """A worker wants to do this once."""
    wish = ClaimEffect(key=key, payload_digest=digest(text(payload)), fence=fence, command_id=command_id)
    return lambda state: effects.claim(state, wish, noon(9))


EFFECT_PAGE: Page = {
    "is": _effect(lambda state: state, full=True),
    "claim": _effect(claim()),
    "claim by the same command": _effect(claim(1, command_id="c1")),
    "claim by another command": _effect(claim(1, command_id="c2")),
    "claim with another payload": _effect(claim(payload=2)),
    "complete": _effect(lambda state: effects.finish(state, "mail", 1, "completed", text("sent"))),
    "complete under another fence": _effect(lambda state: effects.finish(state, "mail", 2, "completed", text("sent"))),
    "fail": _effect(lambda state: effects.finish(state, "mail", 1, "failed", text("refused"))),
    "fail otherwise": _effect(lambda state: effects.finish(state, "mail", 1, "failed", text("?"))),
    "done": _effect(lambda state: effects.reconcile(state, "mail", "done", text(4), LEADER)),
    "done otherwise": _effect(lambda state: effects.reconcile(state, "mail", "done", text(5), LEADER)),
    "not done": _effect(lambda state: effects.reconcile(state, "mail", "not_done", text(None), LEADER)),
}
