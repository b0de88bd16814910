"""Every situation that a run can be in, by name: the thirteen states, with all that a lease may be beside them.

A situation is the facts that led to it and the second after noon at which a command meets it. `ada` holds or held the
run under fence 1 wherever anybody did; the run's policy leaves attempts unless the name says otherwise. The names are
the vocabulary of `test_every_command_in_every_state`.
"""

from typing import NamedTuple

from tests.domain.facts import (
    cancel_asked,
    closed,
    expired,
    granted,
    handed_back,
    judged,
    lease_expired,
    parked,
    pause_asked,
    paused,
    reserved,
    settled,
    sliced,
    submitted,
)
from tests.domain.facts import (
    ended as attempt_ended,
)
from tests.domain.kit import Given, given

DEADLINE = 60.0


class Situation(NamedTuple):
    """How a run stands, and when it is asked something."""

    given: Given
    at: float = 10.0


_queued = submitted(max_attempts=3)
_held = (_queued, granted())
_judged_by_leader = submitted(verdict_by="leader")
_held_for_verdict = (_judged_by_leader, granted())
_last_attempt = (submitted(max_attempts=1), granted())
_slice = (_queued, granted(slice_ends=30))
_kept = {
    kind: (*_held, parked(kind, kept=True))
    for kind in ("waiting_input", "waiting_peer", "waiting_takeover")
}  # fmt: skip

SITUATIONS: dict[str, Situation] = {
    "absent": Situation(given()),
    "queued": Situation(given(_queued)),
    "queued later": Situation(given(submitted(due=3600))),
    "queued again": Situation(given(*_held, handed_back()), 20),
    "queued late": Situation(given(*_held, expired()), DEADLINE),
    "reserved": Situation(given(_queued, reserved("ada"))),
    "reserved past": Situation(given(_queued, reserved("ada")), 120),
    "running": Situation(given(*_held)),
    "running cancel": Situation(given(*_held, cancel_asked())),
    "running pause": Situation(given(*_held, pause_asked())),
    "running slice": Situation(given(*_slice), 30),
    "running sliced": Situation(given(*_slice, sliced()), 40),
    "running past": Situation(given(*_held), DEADLINE),
    "running past last": Situation(given(*_last_attempt), DEADLINE),
    "running past cancel": Situation(given(*_held, cancel_asked()), DEADLINE),
    "running past pause": Situation(given(*_held, pause_asked()), DEADLINE),
    "running past sliced": Situation(given(*_slice, sliced()), DEADLINE),
    "waiting_input": Situation(given(*_held, parked("waiting_input"))),
    "waiting_input late": Situation(
        given(*_kept["waiting_input"], lease_expired(), attempt_ended("expired")), DEADLINE
    ),
    "waiting_input pause": Situation(given(*_held, pause_asked(), parked("waiting_input"))),
    "waiting_input kept": Situation(given(*_kept["waiting_input"])),
    "waiting_input kept cancel": Situation(given(*_kept["waiting_input"], cancel_asked())),
    "waiting_input kept past": Situation(given(*_kept["waiting_input"]), DEADLINE),
    "waiting_input kept past cancel": Situation(given(*_kept["waiting_input"], cancel_asked()), DEADLINE),
    "waiting_input kept past pause": Situation(
        given(*_held, pause_asked(), parked("waiting_input", kept=True)), DEADLINE
    ),
    "waiting_peer": Situation(given(*_held, parked("waiting_peer"))),
    "waiting_peer kept": Situation(given(*_kept["waiting_peer"])),
    "waiting_peer kept past": Situation(given(*_kept["waiting_peer"]), DEADLINE),
    "waiting_takeover": Situation(given(*_held, parked("waiting_takeover"))),
    "waiting_takeover pause": Situation(given(*_held, pause_asked(), parked("waiting_takeover"))),
    "waiting_takeover kept": Situation(given(*_kept["waiting_takeover"])),
    "waiting_takeover kept past": Situation(given(*_kept["waiting_takeover"]), DEADLINE),
    "waiting_verdict": Situation(given(*_held_for_verdict, closed("succeeded", "waiting_verdict"))),
    "waiting_verdict failed": Situation(given(*_held_for_verdict, closed("failed", "waiting_verdict", failed=1))),
    "paused": Situation(given(_queued, paused())),
    "paused by worker": Situation(given(*_held, pause_asked(), parked("paused"))),
    "paused kept": Situation(given(*_held, pause_asked(), parked("paused", kept=True))),
    "paused kept past": Situation(given(*_held, pause_asked(), parked("paused", kept=True)), DEADLINE),
    "succeeded": Situation(given(*_held, closed()), 30),
    "succeeded judged": Situation(given(*_held_for_verdict, closed("succeeded", "waiting_verdict"), judged()), 40),
    "failed": Situation(given(*_held, closed("failed", "failed", failed=1)), 30),
    "cancelled": Situation(given(_queued, cancel_asked(), settled("cancelled", "cancelled", fence=1)), 30),
    "aborted": Situation(
        given(
            *_last_attempt,
            lease_expired(),
            attempt_ended("expired", failed=1),
            settled("aborted", "attempts_exhausted"),
        ),
        DEADLINE,
    ),
    "lost": Situation(
        given(*_held, attempt_ended("revoked"), settled("lost", "process_ended_unknown", worker="ada")), 30
    ),
}  # fmt: skip
