"""Which process goes by a worker's id.

A worker's id is a name, and two processes may be given the same one by mistake: the same ``--id`` on two machines, a
template that was copied. Each of them would then be heard as the other, be granted what the other has room for, and be
signed off by the other's goodbye. So a process may say which *instance* it is: a text that it keeps wherever it keeps
its work, so that a process that starts anew in the same place is the same instance. Whoever says none is not told
apart, as before.

While the registered instance is *heard*, another one is refused. It is not when its last stream was closed by its side
without a goodbye, or when it has been unheard for half of ``gone_s``: from then on another instance may take the id
over, and it is the former one that is refused should it come back. That is a matter of names only. Which of them may
write to a run is decided by the fence, as ever.
"""

from datetime import datetime

from domain.refusal import InvalidCommand, Refusal
from domain.submission import check_id
from domain.values import Value

WHERE_MAX_CHARS = 256
SILENT_SHARE = 0.5
"""Of ``gone_s``: how long an instance may be unheard before another may take its worker's id over."""


class Instance(Value, frozen=True, kw_only=True):
    """One process: what it calls itself, where it says that it is, and since when it has been registered."""

    id: str
    where: str | None = None
    since: datetime


class WorkerInUse(Refusal):
    """Another process is registered under this worker's id."""

    code = "worker_in_use"

    def __init__(
        self, worker_id: str, where: str | None, since: str, last_seen_at: str | None, retry_after_s: float
    ) -> None:
        place = f" at {where}" if where else ""
        super().__init__(
            f"worker {worker_id!r} is another process{place}, registered since {since}; "
            "end that one, or give this one another id",
            worker_id=worker_id, where=where, since=since, last_seen_at=last_seen_at, retry_after_s=retry_after_s,
        )  # fmt: skip


def named(instance_id: str | None, where: str | None, now: datetime) -> Instance | None:
    """The instance that a process says it is; None when it says none.

    Raises:
        InvalidCommand: the id has other characters than ids have, or the place is longer than its bound.
    """
    if where is not None and len(where) > WHERE_MAX_CHARS:
        raise InvalidCommand(field="where", value=where, limit=f"at most {WHERE_MAX_CHARS} characters")
    if instance_id is None:
        return None
    check_id("instance", instance_id)
    return Instance(id=instance_id, where=where, since=now)


def is_other(known: Instance | None, instance_id: str | None) -> bool:
    """Whether this is another process than the registered one; who says nothing is nobody else."""
    return known is not None and instance_id is not None and known.id != instance_id


def same_process(known: Instance | None, instance: Instance) -> bool:
    """Whether this is the registered process, and not another one of the same instance, or of another."""
    return known is not None and (known.id, known.where) == (instance.id, instance.where)
