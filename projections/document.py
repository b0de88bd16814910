"""The document of one run, as everybody is shown it: in an answer, in a list, in a stored read model.

It is a pure function of two folded streams, the run and its lease, so every road that shows a run shows the same
bytes for the same facts. What is not a fact (the evidence register, the last partial, the position of the run's last
fact) is joined in by whoever shows the run, never here: a projection built from this is rebuilt byte for byte.

Values are ready for ``msgspec.json.encode``: user JSON stays the bytes that arrived, instants are aware UTC, the
policy is a struct. ``fence`` is the one in force (0 before the first grant); ``owner`` holds the lease or has
reserved it; ``timeouts`` were told and wait for an answer; ``due_at`` is an instant while the run is queued or
reserved, and null otherwise.
"""

from typing import Any

from domain.lease import Lease, Reserved, holder_of
from domain.quiet import unanswered
from domain.run import Answered, Parked, Queued, Run, Settled, Timeout
from domain.run_facts import State
from journal.mapper import Recorded


def state_of(run: Run, lease: Lease) -> State:
    """The run's state in one word; a queued run whose lease is reserved is ``reserved``."""
    return "reserved" if isinstance(run.phase, Queued) and isinstance(lease, Reserved) else run.state


def document(run: Run, lease: Lease) -> dict[str, Any]:
    """Everything that was decided about one run, without evidence, partial, workspaces and position.

    Timeouts that wait for an answer are told where there are any.
    """
    wish, phase = run.submission, run.phase
    asked = [_unanswered(*one) for one in unanswered(run).items()] if run.timeouts else []
    return {
        "run_id": wish.run_id,
        "queue": wish.queue,
        "name": wish.name,
        "tags": wish.tags,
        "labels": wish.labels,
        "priority": wish.priority,
        "run_after": wish.run_after,
        "concurrency_key": wish.concurrency_key,
        "state": state_of(run, lease),
        "reason": run.reason,
        "leader_id": run.leader_id,
        "revision": run.revision,
        "fence": lease.fence,
        "attempt": run.attempt,
        "failed_attempts": run.failed_attempts,
        "owner": holder_of(lease),
        "due_at": phase.due_at if isinstance(phase, Queued) else None,
        "payload": wish.payload,
        "policy": wish.policy,
        "question": phase.question if isinstance(phase, Parked) else None,
        "answers": [_answered(answered) for answered in run.answers],
        **({"timeouts": asked} if asked else {}),
        "result": run.result,
        "error": run.error,
        "retry_of": wish.retry_of,
        "submitted_at": wish.submitted_at,
        "settled_at": phase.settled_at if isinstance(phase, Settled) else None,
    }


def fact_document(recorded: Recorded) -> dict[str, Any]:
    """One recorded fact as it is shown: its place, its metadata, and the fact itself under ``data``."""
    meta = recorded.meta
    return {
        "position": recorded.position,
        "fact_id": meta.fact_id,
        "topic": recorded.topic,
        "stream": recorded.stream,
        "recorded_at": meta.recorded_at,
        "causation_id": meta.causation_id,
        "principal": meta.principal,
        "data": recorded.fact,
    }


def _unanswered(citation: str, told: Timeout) -> dict[str, Any]:
    return {"fact": citation, "kind": told.kind, "since": told.mark, "after_s": told.after_s}


def _answered(answered: Answered) -> dict[str, Any]:
    return {
        "question": answered.question,
        "answer": answered.answer,
        "principal": answered.principal,
        "at": answered.at,
    }
