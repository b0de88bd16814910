"""Workers: what they say of themselves, and when one is granted nothing."""

from collections.abc import Callable
from typing import Literal

import pytest

from domain.decider import fold
from domain.refusal import InvalidCommand, Refusal
from domain.worker import (
    POISON_CLASSES,
    SLOTS_MAX,
    UNREGISTERED,
    Blame,
    LeasesHeld,
    Quarantine,
    Registered,
    Unregistered,
    Worker,
    WorkerDetached,
    WorkerDrained,
    WorkerDraining,
    WorkerFact,
    WorkerGone,
    WorkerInQuarantine,
    WorkerLeft,
    WorkerQuarantined,
    WorkerRegistered,
    WorkerReleased,
    WorkerUnknown,
    detach,
    drain,
    evolve,
    gone,
    leave,
    may_be_granted,
    poison_class,
    quarantine,
    register,
    release,
    require,
    worker_stream,
)
from tests.domain.kit import noon

REGISTERED = WorkerRegistered(worker_id="ada", labels={"os": "linux"}, slots=2)
DRAINED = WorkerDrained(worker_id="ada", by="ops")
QUARANTINED = WorkerQuarantined(
    worker_id="ada", reason="ssh_timeout", cites=("run-r1@4",), quarantined_at=noon(), until=noon(300)
)
RELEASED = WorkerReleased(worker_id="ada", cause="operator", by="ops")
DETACHED = WorkerDetached(worker_id="ada", detached_at=noon(), window_s=1.0)
GONE = WorkerGone(worker_id="ada", last_seen_at=noon())
LEFT = WorkerLeft(worker_id="ada")

Name = Literal["unknown", "registered", "draining", "quarantined", "both", "left", "gone", "left in quarantine"]

WORKERS: dict[Name, list[WorkerFact]] = {
    "unknown": [],
    "registered": [REGISTERED],
    "draining": [REGISTERED, DRAINED],
    "quarantined": [REGISTERED, QUARANTINED],
    "both": [REGISTERED, QUARANTINED, DRAINED],
    "left": [REGISTERED, LEFT],
    "gone": [REGISTERED, GONE],
    "left in quarantine": [REGISTERED, QUARANTINED, LEFT],
}


def worker(*facts: WorkerFact) -> Worker:
    initial: Worker = UNREGISTERED
    return fold(evolve, initial, facts)


def known(name: Name) -> Worker:
    return worker(*WORKERS[name])


BLAME = Blame(worker_id="ada", reason="ssh_timeout", cites=("run-r1@4",))

REGISTERS = "WorkerRegistered"
COMMANDS: dict[str, dict[Name, str]] = {
    "register the same": {
        "unknown": REGISTERS, "registered": "", "draining": REGISTERS, "quarantined": "", "both": REGISTERS,
        "left": REGISTERS, "gone": REGISTERS, "left in quarantine": REGISTERS,
    },
    "register anew": dict.fromkeys(WORKERS, REGISTERS),
    "drain": {
        "unknown": "! worker_unknown", "registered": "WorkerDrained", "draining": "", "quarantined": "WorkerDrained",
        "both": "", "left": "! worker_unknown", "gone": "! worker_unknown", "left in quarantine": "! worker_unknown",
    },
    "leave": {
        "unknown": "", "registered": "WorkerLeft", "draining": "WorkerLeft", "quarantined": "WorkerLeft",
        "both": "WorkerLeft", "left": "", "gone": "", "left in quarantine": "",
    },
    "leave holding": {
        "unknown": "", "registered": "! leases_held", "draining": "! leases_held", "quarantined": "! leases_held",
        "both": "! leases_held", "left": "", "gone": "", "left in quarantine": "",
    },
    "gone": {
        "unknown": "", "registered": "WorkerGone", "draining": "WorkerGone", "quarantined": "WorkerGone",
        "both": "WorkerGone", "left": "", "gone": "", "left in quarantine": "",
    },
    "detach": {
        "unknown": "", "registered": "WorkerDetached", "draining": "WorkerDetached", "quarantined": "WorkerDetached",
        "both": "WorkerDetached", "left": "", "gone": "", "left in quarantine": "",
    },
    "quarantine": {
        "unknown": "", "registered": "WorkerQuarantined", "draining": "WorkerQuarantined",
        "quarantined": "WorkerQuarantined", "both": "WorkerQuarantined", "left": "", "gone": "",
        "left in quarantine": "",
    },
    "release": {
        "unknown": "", "registered": "", "draining": "", "quarantined": "WorkerReleased", "both": "WorkerReleased",
        "left": "", "gone": "", "left in quarantine": "WorkerReleased",
    },
    "grant": {
        "unknown": "! worker_unknown", "registered": "", "draining": "! worker_draining",
        "quarantined": "! worker_quarantined", "both": "! worker_draining", "left": "! worker_unknown",
        "gone": "! worker_unknown", "left in quarantine": "! worker_unknown",
    },
    "probe": {
        "unknown": "! worker_unknown", "registered": "", "draining": "! worker_draining", "quarantined": "",
        "both": "! worker_draining", "left": "! worker_unknown", "gone": "! worker_unknown",
        "left in quarantine": "! worker_unknown",
    },
}  # fmt: skip


def granted(state: Worker, *, cooled: bool) -> list[WorkerFact]:
    may_be_granted(state, "ada", cooled=cooled, probing=0)
    return []


DECIDE: dict[str, Callable[[Worker], list[WorkerFact]]] = {
    "register the same": lambda state: register(state, "ada", {"os": "linux"}, 2),
    "register anew": lambda state: register(state, "ada", {"os": "linux"}, 3),
    "drain": lambda state: drain(state, "ada", "ops"),
    "leave": lambda state: leave(state, "ada", []),
    "leave holding": lambda state: leave(state, "ada", ["r1"]),
    "gone": lambda state: gone(state, "ada", noon()),
    "detach": lambda state: detach(state, "ada", noon(), 1.0),
    "quarantine": lambda state: quarantine(state, BLAME, noon(), 300.0),
    "release": lambda state: release(state, "ada", "operator", "ops"),
    "grant": lambda state: granted(state, cooled=False),
    "probe": lambda state: granted(state, cooled=True),
}


@pytest.mark.parametrize("name", WORKERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_to_each_worker_what_the_table_says(command: str, name: Name) -> None:
    try:
        outcome = " ".join(type(fact).__name__ for fact in DECIDE[command](known(name)))
    except Refusal as refusal:
        outcome = f"! {refusal.code}"

    assert COMMANDS[command][name] == outcome


def test_the_table_has_each_command_for_each_worker() -> None:
    assert set(COMMANDS) == set(DECIDE)
    assert [set(WORKERS)] * len(COMMANDS) == [set(row) for row in COMMANDS.values()]


def test_a_workers_stream_is_named_after_its_tenant_and_its_id() -> None:
    assert "worker-acme:ada" == worker_stream("acme", "ada")


def test_a_registration_says_what_the_worker_has_and_ends_a_drain() -> None:
    again = worker(REGISTERED, DRAINED, REGISTERED)

    assert Registered(version=3, worker_id="ada", labels={"os": "linux"}, slots=2, draining=False) == again


@pytest.mark.parametrize("slots", [0, SLOTS_MAX + 1])
def test_slots_outside_their_bounds_are_refused_naming_the_limit(slots: int) -> None:
    with pytest.raises(InvalidCommand) as refused:
        register(UNREGISTERED, "ada", {}, slots)

    assert ("slots", slots) == (refused.value.field, refused.value.value)


@pytest.mark.parametrize("slots", [1, SLOTS_MAX])
def test_slots_at_their_bounds_are_taken(slots: int) -> None:
    assert [WorkerRegistered(worker_id="ada", labels={}, slots=slots)] == register(UNREGISTERED, "ada", {}, slots)


def test_a_worker_id_that_could_not_be_a_stream_is_refused() -> None:
    for worker_id in ("", "a:b", "a b", "x" * 129):
        with pytest.raises(InvalidCommand):
            register(UNREGISTERED, worker_id, {}, 1)


@pytest.mark.origin("D51")
def test_a_worker_does_not_leave_with_leases_and_is_told_which_it_holds() -> None:
    with pytest.raises(LeasesHeld) as refused:
        leave(known("registered"), "ada", ["r1", "r2"])

    assert ["r1", "r2"] == refused.value.run_ids


@pytest.mark.origin("D53")
def test_a_draining_worker_is_granted_nothing_and_draining_twice_is_draining_once() -> None:
    with pytest.raises(WorkerDraining):
        may_be_granted(known("draining"), "ada", cooled=True, probing=0)
    assert [] == drain(known("draining"), "ada", "ops")


@pytest.mark.origin("D50")
def test_a_quarantined_worker_is_granted_nothing_and_the_refusal_says_why_and_until_when() -> None:
    with pytest.raises(WorkerInQuarantine) as refused:
        may_be_granted(known("quarantined"), "ada", cooled=False, probing=0)

    assert ("ssh_timeout", noon(300).isoformat()) == (refused.value.reason, refused.value.until)


@pytest.mark.origin("D50")
def test_after_its_cool_down_a_quarantined_worker_is_granted_one_probing_run_and_no_second() -> None:
    cooled = known("quarantined")

    assert cooled == may_be_granted(cooled, "ada", cooled=True, probing=0)
    with pytest.raises(WorkerInQuarantine):
        may_be_granted(cooled, "ada", cooled=True, probing=1)


def test_a_refusal_names_the_instant_until_which_a_worker_is_quarantined_unless_its_probing_run_is_out() -> None:
    held = Quarantine(reason="ssh_timeout", since=noon(), until=noon(300))

    assert noon(300).isoformat() in str(WorkerInQuarantine("ada", held))
    assert noon(300).isoformat() not in str(WorkerInQuarantine("ada", held, probing=True))


def test_a_quarantine_outlives_leaving_and_being_gone_and_registering_again() -> None:
    held = Quarantine(reason="ssh_timeout", since=noon(), until=noon(300))

    for away in (LEFT, GONE):
        assert Unregistered(version=3, quarantine=held) == worker(REGISTERED, QUARANTINED, away)
        assert held == worker(REGISTERED, QUARANTINED, away, REGISTERED).quarantine
    assert worker(REGISTERED, QUARANTINED, RELEASED).quarantine is None


def test_a_quarantine_says_who_is_to_blame_by_which_facts_and_until_when() -> None:
    assert [QUARANTINED] == quarantine(known("registered"), BLAME, noon(), 300.0)


def test_a_detachment_is_noted_on_a_worker_that_is_known() -> None:
    assert noon() == require(worker(REGISTERED, DETACHED), "ada").detached_at
    assert Unregistered(version=1) == worker(DETACHED)


def test_a_worker_that_is_not_registered_is_named_in_the_refusal() -> None:
    with pytest.raises(WorkerUnknown) as refused:
        require(UNREGISTERED, "ada")

    assert "ada" == refused.value.worker_id


@pytest.mark.origin("D50")
@pytest.mark.parametrize("poison", POISON_CLASSES)
def test_an_error_is_poison_when_it_begins_with_a_poison_class_and_not_when_it_only_mentions_one(poison: str) -> None:
    assert poison == poison_class(poison)
    assert poison == poison_class(f"{poison}: after 30 s")
    assert poison_class(f"failed with {poison}") is None
    assert poison_class("") is None
