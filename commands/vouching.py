"""What the end of a holding says about the worker that held: that it is to blame, or that it works.

A failed outcome that begins with a poison class quarantines the worker, in the append of the close. Any other end that
the worker came to, as the holder of its probing run, releases it: a close, a hand-back, a parking that gives the lease
up, and a slice that was held to its end. A lease that ran out before proves nothing, nor does one that was taken away.
"""

from collections.abc import Sequence

from commands.desk import Caller, Desk
from domain.lease import Held
from domain.run_facts import RunClosed
from domain.standing import RunDraft, Standing
from domain.values import Moment, Value
from domain.worker import Blame, Worker, poison_class, quarantine, release, worker_stream
from journal.commit import Entry


class Ended(Value, frozen=True):
    """A decision that may end a holding, and the code of the error that it ends with, if it failed."""

    standing: Standing
    draft: RunDraft
    error: str = ""


class AboutWorkers:
    """What follows for the workers that held, and the streams of theirs that were read."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.guards: dict[str, int] = {}


class _Said(Value, frozen=True):
    """What one end says about its worker: the poison class of its error, if it has one, or that it was a probe."""

    worker_id: str
    poison: str | None
    cites: tuple[str, ...]


def about_workers(desk: Desk, caller: Caller, ended: Sequence[Ended], now: Moment) -> AboutWorkers:
    """What these ends say about their workers, poison before all else; mostly nothing."""
    said: dict[str, _Said] = {}
    for each in ended:
        one = _said(desk, caller, each) if each.draft.let_go else None
        if one is not None and (one.worker_id not in said or said[one.worker_id].poison is None):
            said[one.worker_id] = one
    about = AboutWorkers()
    for one in said.values():
        stream, worker = worker_stream(caller.tenant, one.worker_id), desk.worker(caller, one.worker_id)
        about.guards[stream] = worker.version
        about.entries += _worker_entries(desk, stream, worker, one, now)
    return about


def _said(desk: Desk, caller: Caller, ended: Ended) -> _Said | None:
    """None when the end says nothing about its worker: no poison, and not the end of a probing run."""
    run_id, lease = ended.standing.run_id, ended.standing.lease
    worker_id = lease.worker if isinstance(lease, Held) else lease.last.worker if lease.last is not None else ""
    poison = poison_class(ended.error)
    if poison is None and not desk.live.fleet.is_probe((caller.tenant, worker_id), run_id, lease.fence):
        return None
    return _Said(worker_id, poison, (ended.draft.last(RunClosed),))


def _worker_entries(desk: Desk, stream: str, worker: Worker, said: _Said, now: Moment) -> list[Entry]:
    if said.poison is not None:
        blame = Blame(worker_id=said.worker_id, reason=said.poison, cites=said.cites)
        facts = quarantine(worker, blame, now.wall, desk.timers.quarantine_s)
    else:
        facts = release(worker, said.worker_id, "probe", said.worker_id)
    return [Entry(stream, fact, None) for fact in facts]
