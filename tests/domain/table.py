"""What each command does in each situation: the state machine of a run, written down once more and by hand.

An outcome is a refusal (`! code`), `nothing` (a repeat of what is already so), or the state that the run is in
afterwards and the facts that brought it there, in order. Under each outcome stand the situations that have it. No
outcome stands for "all others": a new situation has to be thought about once for each command.
"""

SETTLED = "succeeded, succeeded judged, failed, cancelled, aborted, lost"
JUDGED = "waiting_verdict, waiting_verdict failed"
QUEUED = "queued, queued later, queued again, queued late"
RESERVED = "reserved, reserved past"
LIVE = "running, running pause, running slice, running sliced"
PAST = "running past, running past last, running past pause, running past sliced"
HELD = f"{LIVE}, {PAST}"
CANCELLING = "running cancel, running past cancel, waiting_input kept cancel, waiting_input kept past cancel"
WAITING = (
    "waiting_input, waiting_input late, waiting_input pause, waiting_peer, waiting_takeover, waiting_takeover pause"
)
PAUSED = "paused, paused by worker"
KEPT_LIVE = "waiting_input kept, waiting_peer kept, waiting_takeover kept"
KEPT_PAST = "waiting_input kept past, waiting_peer kept past, waiting_takeover kept past"
PAUSED_KEPT = "paused kept, paused kept past"
KEPT = f"{KEPT_LIVE}, {KEPT_PAST}, waiting_input kept past pause, {PAUSED_KEPT}"
HELD_BY_NOBODY = f"{QUEUED}, {RESERVED}, {WAITING}, {PAUSED}, {JUDGED}, {SETTLED}"

ENDED_BY_CLOCK = "LeaseExpired WorkerTimeout AttemptEnded"
GRANTED = "FenceBumped AttemptStarted"
SETTLES = "RunSettled LeaseRevoked"

_NEVER_GRANTED = {
    "! run_unknown": "absent",
    "! verdict_pending": JUDGED,
    "! run_paused": f"{PAUSED}, {PAUSED_KEPT}",
    "! run_settled": SETTLED,
}
_LIVE_LEASE = f"{LIVE}, running cancel, {KEPT_LIVE}, waiting_input kept cancel"
_LEASE_PAST = f"{PAST}, running past cancel, {KEPT_PAST}, waiting_input kept past cancel, waiting_input kept past pause"

_WHATEVER_ITS_LEASE = {
    "running": f"{HELD}, running cancel, running past cancel",
    "waiting_input": "waiting_input, waiting_input late, waiting_input pause, waiting_input kept, "
    "waiting_input kept cancel, waiting_input kept past, waiting_input kept past cancel, waiting_input kept past pause",
    "waiting_peer": "waiting_peer, waiting_peer kept, waiting_peer kept past",
    "waiting_takeover": "waiting_takeover, waiting_takeover pause, waiting_takeover kept, waiting_takeover kept past",
    "waiting_verdict": JUDGED,
    "paused": f"{PAUSED}, {PAUSED_KEPT}",
}

TABLE: dict[str, dict[str, str]] = {
    "claim by queue": {
        **_NEVER_GRANTED,
        f"running: {GRANTED}": "queued, queued again, queued late",
        "! lease_held": f"queued later, {RESERVED}, {_LIVE_LEASE}",
        "! wrong_state": f"{WAITING}, {_LEASE_PAST}",
    },
    "claim by id": {
        **_NEVER_GRANTED,
        f"running: {GRANTED}": f"{QUEUED}, {WAITING}",
        f"running: {ENDED_BY_CLOCK} {GRANTED}": "running past",
        f"running: LeaseExpired AttemptEnded {GRANTED}": f"running past sliced, {KEPT_PAST}",
        "! lease_held": f"{RESERVED}, {_LIVE_LEASE}, running past last, running past cancel, running past pause, "
        "waiting_input kept past cancel, waiting_input kept past pause",
    },
    "reserve": {
        **_NEVER_GRANTED,
        "reserved: LeaseReserved": QUEUED,
        "! lease_held": f"{RESERVED}, {_LIVE_LEASE}",
        "! wrong_state": f"{WAITING}, {_LEASE_PAST}",
    },
    "bind": {
        "running: LeaseBound AttemptStarted": "reserved",
        "! reservation_lost": f"absent, reserved past, {QUEUED}, {HELD}, {CANCELLING}, {WAITING}, {KEPT}, {PAUSED}, "
        f"{JUDGED}, {SETTLED}",
    },
    "cancel reservation": {
        "queued: ReservationCancelled": RESERVED,
        "! reservation_lost": f"absent, {QUEUED}, {HELD}, {CANCELLING}, {WAITING}, {KEPT}, {PAUSED}, {JUDGED}, "
        f"{SETTLED}",
    },
    "lapse": {
        "queued: ReservationLapsed": RESERVED,
        "nothing": f"absent, {QUEUED}, {HELD}, {CANCELLING}, {WAITING}, {KEPT}, {PAUSED}, {JUDGED}, {SETTLED}",
    },
    "park": {
        "! run_unknown": "absent",
        "! fence_lost": HELD_BY_NOBODY,
        "waiting_input: AttemptEnded LeaseReleased RunParked": f"{HELD}, {KEPT}",
        f"cancelled: AttemptEnded LeaseReleased {SETTLES}": CANCELLING,
    },
    "park keeping": {
        "! run_unknown": "absent",
        "! fence_lost": HELD_BY_NOBODY,
        "waiting_takeover: RunParked": f"{HELD}, {CANCELLING}, waiting_input kept, waiting_input kept past, "
        f"waiting_peer kept, waiting_peer kept past, waiting_input kept past pause, {PAUSED_KEPT}",
        "nothing": "waiting_takeover kept, waiting_takeover kept past",
    },
    "park paused": {
        "! run_unknown": "absent",
        "! fence_lost": HELD_BY_NOBODY,
        "! wrong_state": "running, running slice, running sliced, running past, running past last, "
        f"running past sliced, {KEPT_LIVE}, {KEPT_PAST}, {CANCELLING}",
        "paused: AttemptEnded LeaseReleased RunParked": "running pause, running past pause, "
        f"waiting_input kept past pause, {PAUSED_KEPT}",
    },
    "hand back": {
        "! run_unknown": "absent",
        "! fence_lost": HELD_BY_NOBODY,
        "queued: LeaseReleased AttemptEnded": "running, running slice, running sliced, running past, "
        f"running past last, running past sliced, {KEPT_LIVE}, {KEPT_PAST}, {PAUSED_KEPT}",
        "paused: LeaseReleased AttemptEnded RunParked": "running pause, running past pause, "
        "waiting_input kept past pause",
        f"cancelled: LeaseReleased AttemptEnded {SETTLES}": CANCELLING,
    },
    "expire": {
        "! run_unknown": "absent",
        "nothing": f"{HELD_BY_NOBODY}, {LIVE}, running cancel, {KEPT_LIVE}, waiting_input kept cancel, paused kept",
        f"queued: {ENDED_BY_CLOCK}": "running past",
        f"aborted: {ENDED_BY_CLOCK} {SETTLES}": "running past last",
        f"cancelled: {ENDED_BY_CLOCK} {SETTLES}": "running past cancel",
        f"paused: {ENDED_BY_CLOCK} RunParked": "running past pause",
        "queued: LeaseExpired AttemptEnded": "running past sliced",
        "waiting_input: LeaseExpired AttemptEnded": "waiting_input kept past, waiting_input kept past pause",
        "waiting_peer: LeaseExpired AttemptEnded": "waiting_peer kept past",
        "waiting_takeover: LeaseExpired AttemptEnded": "waiting_takeover kept past",
        "paused: LeaseExpired AttemptEnded": "paused kept past",
        f"cancelled: LeaseExpired AttemptEnded {SETTLES}": "waiting_input kept past cancel",
    },
    "end slice": {
        "running: SliceEnded": "running slice",
        "nothing": f"absent, {HELD_BY_NOBODY}, running, running pause, running sliced, {PAST}, {CANCELLING}, {KEPT}",
    },
    "close succeeded": {
        "! run_unknown": "absent",
        "! fence_lost": f"queued, queued later, queued again, {RESERVED}, {WAITING}, {PAUSED}, "
        "waiting_verdict failed, failed, cancelled, aborted, lost",
        "succeeded: RunClosed LeaseReleased": f"queued late, {HELD}, {CANCELLING}, {KEPT}",
        "nothing": "waiting_verdict, succeeded, succeeded judged",
    },
    "close failed": {
        "! run_unknown": "absent",
        "! fence_lost": f"queued, queued later, queued again, {RESERVED}, {WAITING}, {PAUSED}, "
        "waiting_verdict, succeeded, succeeded judged, cancelled, aborted, lost",
        "queued: RunClosed LeaseReleased": "queued late, running, running slice, running sliced, running past, "
        f"running past sliced, {KEPT_LIVE}, {KEPT_PAST}, {PAUSED_KEPT}",
        "paused: RunClosed LeaseReleased RunParked": "running pause, running past pause, waiting_input kept past pause",
        "failed: RunClosed LeaseReleased": "running past last",
        f"cancelled: RunClosed LeaseReleased {SETTLES}": CANCELLING,
        "nothing": "waiting_verdict failed, failed",
    },
    "close failed for good": {
        "! run_unknown": "absent",
        "! fence_lost": f"queued, queued later, queued again, {RESERVED}, {WAITING}, {PAUSED}, "
        "waiting_verdict, succeeded, succeeded judged, cancelled, aborted, lost",
        "failed: RunClosed LeaseReleased": f"queued late, {HELD}, {KEPT}",
        f"cancelled: RunClosed LeaseReleased {SETTLES}": CANCELLING,
        "nothing": "waiting_verdict failed, failed",
    },
    "close with no known exit": {
        "! run_unknown": "absent",
        "! fence_lost": f"queued, queued later, queued again, {RESERVED}, {WAITING}, {PAUSED}, {JUDGED}, {SETTLED}",
        f"lost: RunClosed LeaseReleased {SETTLES}": f"queued late, {HELD}, {KEPT}",
        f"cancelled: RunClosed LeaseReleased {SETTLES}": CANCELLING,
    },
    "cancel": {
        "! run_unknown": "absent",
        "! run_settled": "succeeded, succeeded judged, failed, aborted, lost",
        f"cancelled: CancelRequested {SETTLES}": f"{QUEUED}, {RESERVED}, {WAITING}, {PAUSED}, {JUDGED}",
        f"cancelled: CancelRequested AttemptEnded {SETTLES}": f"{PAST}, {KEPT_PAST}, waiting_input kept past pause, "
        "paused kept past",
        "running: CancelRequested": LIVE,
        "waiting_input: CancelRequested": "waiting_input kept",
        "waiting_peer: CancelRequested": "waiting_peer kept",
        "waiting_takeover: CancelRequested": "waiting_takeover kept",
        "paused: CancelRequested": "paused kept",
        "nothing": f"{CANCELLING}, cancelled",
    },
    "cancel due": {
        "! run_unknown": "absent",
        f"cancelled: AttemptEnded {SETTLES}": CANCELLING,
        "nothing": f"{HELD_BY_NOBODY}, {HELD}, {KEPT}",
    },
    "verdict": {
        "! run_unknown": "absent",
        "succeeded: VerdictRendered LeaseRevoked": JUDGED,
        "! wrong_state": f"{QUEUED}, {RESERVED}, {HELD}, {CANCELLING}, {WAITING}, {KEPT}, {PAUSED}",
        "! run_settled": "succeeded, failed, cancelled, aborted, lost",
        "nothing": "succeeded judged",
    },
    "report stop": {
        "! run_unknown": "absent",
        "lost: StopReported": "lost",
        "! fence_lost": f"{QUEUED}, {RESERVED}, {HELD}, {CANCELLING}, {WAITING}, {KEPT}, {PAUSED}, {JUDGED}, "
        "succeeded, succeeded judged, failed, cancelled, aborted",
    },
    "answer": {
        "! run_unknown": "absent",
        "! run_settled": SETTLED,
        "! wrong_state": f"{QUEUED}, {RESERVED}, {HELD}, running cancel, running past cancel, waiting_takeover, "
        f"waiting_takeover pause, waiting_takeover kept, waiting_takeover kept past, {PAUSED}, {PAUSED_KEPT}, "
        f"{JUDGED}",
        "running: InputProvided": "waiting_input kept, waiting_input kept cancel, waiting_peer kept",
        "queued: InputProvided": "waiting_input, waiting_input late, waiting_peer",
        "paused: InputProvided RunParked": "waiting_input pause",
        "queued: LeaseExpired AttemptEnded InputProvided": "waiting_input kept past, waiting_peer kept past",
        "paused: LeaseExpired AttemptEnded InputProvided RunParked": "waiting_input kept past pause",
        "! lease_held": "waiting_input kept past cancel",
    },
    "resume": {
        "! run_unknown": "absent",
        "! run_settled": SETTLED,
        "! wrong_state": f"{QUEUED}, {RESERVED}, {HELD}, {CANCELLING}, waiting_input, waiting_input late, "
        "waiting_input pause, waiting_input kept, waiting_input kept past, waiting_input kept past pause, "
        f"waiting_peer, waiting_peer kept, waiting_peer kept past, {JUDGED}",
        "running: RunResumed": "waiting_takeover kept, paused kept",
        "queued: RunResumed": f"waiting_takeover, {PAUSED}",
        "paused: RunResumed RunParked": "waiting_takeover pause",
        "queued: LeaseExpired AttemptEnded RunResumed": "waiting_takeover kept past, paused kept past",
    },
    "pause": {
        "! run_unknown": "absent",
        "! run_settled": SETTLED,
        "! wrong_state": f"waiting_input, waiting_input late, waiting_peer, waiting_takeover, {KEPT_LIVE}, "
        f"{KEPT_PAST}, waiting_input kept cancel, waiting_input kept past cancel, {JUDGED}",
        "paused: PauseRequested RunParked": QUEUED,
        "paused: PauseRequested ReservationCancelled RunParked": RESERVED,
        "running: PauseRequested": "running, running slice, running sliced, running cancel, running past, "
        "running past last, running past cancel, running past sliced",
        "nothing": "running pause, running past pause, waiting_input pause, waiting_takeover pause, "
        f"waiting_input kept past pause, {PAUSED}, {PAUSED_KEPT}",
    },
    "leader gone": {
        "! run_unknown": "absent",
        f"cancelled: WorkerTimeout {SETTLES}": f"{QUEUED}, {RESERVED}, {WAITING}, {PAUSED}, {JUDGED}",
        f"cancelled: WorkerTimeout AttemptEnded {SETTLES}": f"{HELD}, {CANCELLING}, {KEPT}",
        "nothing": SETTLED,
    },
    "tell": {
        "! run_unknown": "absent",
        "nothing": f"{QUEUED}, {RESERVED}, {SETTLED}",
        **{f"{state}: WorkerTimeout": names for state, names in _WHATEVER_ITS_LEASE.items()},
    },
    "acknowledge": {
        "! run_unknown": "absent",
        "! timeout_unknown": f"{QUEUED}, {RESERVED}, {HELD}, {CANCELLING}, {WAITING}, {KEPT}, {PAUSED}, {JUDGED}, "
        f"{SETTLED}",
    },
    "reassign": {
        "! run_unknown": "absent",
        "! run_settled": SETTLED,
        "queued: RunReassigned": QUEUED,
        "reserved: RunReassigned": RESERVED,
        **{f"{state}: RunReassigned": names for state, names in _WHATEVER_ITS_LEASE.items()},
    },
    "guarded write": {
        "! run_unknown": "absent",
        "! fence_lost": HELD_BY_NOBODY,
        "nothing": f"{HELD}, {CANCELLING}, {KEPT}",
    },
}
"""Command, then outcome, then the situations that have it."""
