"""What the loss of its ground does to a run in each situation, under each policy: written down once more, by hand.

`Deleted` is told to nobody first; `ProcessExited` carries an exit, so a holder with a live lease is asked. An outcome
is the state of the run afterwards and the facts that brought it there, in order; under each stand the situations of
`tests.domain.situations` that have it. No outcome stands for "all others".
"""

UNHELD = "queued, queued later, queued again, queued late"
RESERVED = "reserved, reserved past"
RUNNING_LIVE = "running, running pause, running slice, running sliced"
RUNNING_PAST = "running past, running past last, running past pause, running past sliced"
KEPT_PAST = "waiting_input kept past, waiting_input kept past pause, waiting_peer kept past, waiting_takeover kept past"
JUDGED = "waiting_verdict, waiting_verdict failed"
CANCELLING_PAST = "running past cancel, waiting_input kept past cancel"

_ONLY_TOLD = {
    "waiting_verdict: WorkspaceLost": JUDGED,
    "succeeded: WorkspaceLost": "succeeded, succeeded judged",
    "failed: WorkspaceLost": "failed",
    "cancelled: WorkspaceLost": "cancelled",
    "aborted: WorkspaceLost": "aborted",
    "lost: WorkspaceLost": "lost",
}
"""Runs that have ended or wait for a verdict: the loss is only a fact."""

TABLE: dict[str, dict[str, str]] = {
    "Deleted settle_lost": {
        "lost: WorkspaceLost RunSettled LeaseRevoked": f"{UNHELD}, {RESERVED}, waiting_input, "
        "waiting_input late, waiting_input pause, waiting_peer, waiting_takeover, waiting_takeover pause, "
        "paused, paused by worker",
        "lost: WorkspaceLost AttemptEnded RunSettled LeaseRevoked": f"{RUNNING_LIVE}, {RUNNING_PAST}, "
        "waiting_input kept, waiting_input kept past, waiting_input kept past pause, waiting_peer kept, "
        "waiting_peer kept past, waiting_takeover kept, waiting_takeover kept past, paused kept, "
        "paused kept past",
        "cancelled: WorkspaceLost AttemptEnded RunSettled LeaseRevoked WorkspaceReleased": "running cancel, "
        "running past cancel, waiting_input kept cancel, waiting_input kept past cancel",
        **_ONLY_TOLD,
    },
    "Deleted retry_fresh": {
        "queued: WorkspaceLost": f"{UNHELD}",
        "reserved: WorkspaceLost": f"{RESERVED}",
        "queued: WorkspaceLost AttemptEnded LeaseRevoked": "running, running slice, running sliced, "
        "running past, running past sliced",
        "cancelled: WorkspaceLost AttemptEnded RunSettled LeaseRevoked WorkspaceReleased": "running cancel, "
        "running past cancel, waiting_input kept cancel, waiting_input kept past cancel",
        "paused: WorkspaceLost AttemptEnded LeaseRevoked RunParked": "running pause, running past pause",
        "aborted: WorkspaceLost AttemptEnded RunSettled LeaseRevoked": "running past last",
        "waiting_input: WorkspaceLost": "waiting_input, waiting_input late, waiting_input pause",
        "waiting_input: WorkspaceLost AttemptEnded LeaseRevoked": "waiting_input kept, "
        "waiting_input kept past, waiting_input kept past pause",
        "waiting_peer: WorkspaceLost": "waiting_peer",
        "waiting_peer: WorkspaceLost AttemptEnded LeaseRevoked": "waiting_peer kept, waiting_peer kept past",
        "waiting_takeover: WorkspaceLost": "waiting_takeover, waiting_takeover pause",
        "waiting_takeover: WorkspaceLost AttemptEnded LeaseRevoked": "waiting_takeover kept, "
        "waiting_takeover kept past",
        "paused: WorkspaceLost": "paused, paused by worker",
        "paused: WorkspaceLost AttemptEnded LeaseRevoked": "paused kept, paused kept past",
        **_ONLY_TOLD,
    },
    "Deleted park": {
        "waiting_takeover: WorkspaceLost RunParked": f"{UNHELD}, waiting_input, waiting_input late, "
        "waiting_input pause, waiting_peer",
        "waiting_takeover: WorkspaceLost LeaseRevoked RunParked": f"{RESERVED}",
        "waiting_takeover: WorkspaceLost AttemptEnded LeaseRevoked RunParked": f"{RUNNING_LIVE}, "
        f"{RUNNING_PAST}, waiting_input kept, waiting_input kept past, waiting_input kept past pause, "
        "waiting_peer kept, waiting_peer kept past, waiting_takeover kept, waiting_takeover kept past",
        "cancelled: WorkspaceLost AttemptEnded RunSettled LeaseRevoked WorkspaceReleased": "running cancel, "
        "running past cancel, waiting_input kept cancel, waiting_input kept past cancel",
        "waiting_takeover: WorkspaceLost": "waiting_takeover, waiting_takeover pause",
        "paused: WorkspaceLost": "paused, paused by worker",
        "paused: WorkspaceLost AttemptEnded LeaseRevoked": "paused kept, paused kept past",
        **_ONLY_TOLD,
    },
    "ProcessExited settle_lost": {
        "lost: WorkspaceLost RunSettled LeaseRevoked": f"{UNHELD}, {RESERVED}, waiting_input, "
        "waiting_input late, waiting_input pause, waiting_peer, waiting_takeover, waiting_takeover pause, "
        "paused, paused by worker",
        "running: WorkspaceLost": "running, running cancel, running pause, running slice, running sliced",
        "lost: WorkspaceLost AttemptEnded RunSettled LeaseRevoked": f"{RUNNING_PAST}, {KEPT_PAST}, paused kept past",
        "cancelled: WorkspaceLost AttemptEnded RunSettled LeaseRevoked WorkspaceReleased": f"{CANCELLING_PAST}",
        "waiting_input: WorkspaceLost": "waiting_input kept, waiting_input kept cancel",
        "waiting_peer: WorkspaceLost": "waiting_peer kept",
        "waiting_takeover: WorkspaceLost": "waiting_takeover kept",
        "paused: WorkspaceLost": "paused kept",
        **_ONLY_TOLD,
    },
    "ProcessExited retry_fresh": {
        "queued: WorkspaceLost": f"{UNHELD}",
        "reserved: WorkspaceLost": f"{RESERVED}",
        "running: WorkspaceLost": "running, running cancel, running pause, running slice, running sliced",
        "queued: WorkspaceLost AttemptEnded LeaseRevoked": "running past, running past sliced",
        "aborted: WorkspaceLost AttemptEnded RunSettled LeaseRevoked": "running past last",
        "cancelled: WorkspaceLost AttemptEnded RunSettled LeaseRevoked WorkspaceReleased": f"{CANCELLING_PAST}",
        "paused: WorkspaceLost AttemptEnded LeaseRevoked RunParked": "running past pause",
        "waiting_input: WorkspaceLost": "waiting_input, waiting_input late, waiting_input pause, "
        "waiting_input kept, waiting_input kept cancel",
        "waiting_input: WorkspaceLost AttemptEnded LeaseRevoked": "waiting_input kept past, "
        "waiting_input kept past pause",
        "waiting_peer: WorkspaceLost": "waiting_peer, waiting_peer kept",
        "waiting_peer: WorkspaceLost AttemptEnded LeaseRevoked": "waiting_peer kept past",
        "waiting_takeover: WorkspaceLost": "waiting_takeover, waiting_takeover pause, waiting_takeover kept",
        "waiting_takeover: WorkspaceLost AttemptEnded LeaseRevoked": "waiting_takeover kept past",
        "paused: WorkspaceLost": "paused, paused by worker, paused kept",
        "paused: WorkspaceLost AttemptEnded LeaseRevoked": "paused kept past",
        **_ONLY_TOLD,
    },
    "ProcessExited park": {
        "waiting_takeover: WorkspaceLost RunParked": f"{UNHELD}, waiting_input, waiting_input late, "
        "waiting_input pause, waiting_peer",
        "waiting_takeover: WorkspaceLost LeaseRevoked RunParked": f"{RESERVED}",
        "running: WorkspaceLost": "running, running cancel, running pause, running slice, running sliced",
        "waiting_takeover: WorkspaceLost AttemptEnded LeaseRevoked RunParked": f"{RUNNING_PAST}, {KEPT_PAST}",
        "cancelled: WorkspaceLost AttemptEnded RunSettled LeaseRevoked WorkspaceReleased": f"{CANCELLING_PAST}",
        "waiting_input: WorkspaceLost": "waiting_input kept, waiting_input kept cancel",
        "waiting_peer: WorkspaceLost": "waiting_peer kept",
        "waiting_takeover: WorkspaceLost": "waiting_takeover, waiting_takeover pause, waiting_takeover kept",
        "paused: WorkspaceLost": "paused, paused by worker, paused kept",
        "paused: WorkspaceLost AttemptEnded LeaseRevoked": "paused kept past",
        **_ONLY_TOLD,
    },
}
"""Reason and policy, then outcome, then the situations that have it."""
