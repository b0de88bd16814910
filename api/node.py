"""The node: everything that one running service is made of, and the step of its boot.

Made before anything is open, so that the service can answer ``/livez`` and say in ``/readyz`` which step it is at; the
parts arrive as they are opened (``api/boot.py``). A route that needs the desk is refused ``booting`` until it is there.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

from api.admission import Gate, Tickets
from api.attachments import Attachments
from api.bells import RunBells
from api.followings import Followings
from api.health import Health
from api.keys import KeyRing
from api.settings import Settings
from api.strangers import Strangers
from api.streams import OpenStreams
from api.unknowns import Undestroyed, Unseen, observers, teardown, unknowns
from commands.desk import Desk
from domain.values import Clock
from policies.manager import Manager
from projections.checkpointing import Checkpoints
from projections.past_runs import PastRuns
from projections.runner import Runner
from projections.stored.runs import RunsModel

Stage = Literal["booting", "ready", "stopping", "failed"]


class Node:
    """One running service."""

    def __init__(self, settings: Settings, clock: Clock, boot_id: str) -> None:
        self.settings = settings
        self.clock = clock
        self.boot_id = boot_id
        self.stage: Stage = "booting"
        self.step = "starting"
        self.tickets = Tickets()
        self.streams = OpenStreams(settings.streams)
        self.bells = RunBells()
        self.attachments = Attachments()
        self.followings: Followings = Followings()
        self.health = Health()
        self.gate_or_none: Gate | None = None
        self.desk_or_none: Desk | None = None
        self.runner: Runner | None = None
        self.checkpoints: Checkpoints | None = None
        self.manager: Manager | None = None
        self.overdue: tuple[Unseen, Undestroyed] | None = None
        self._past: PastRuns | None = None
        self._told_to_stop = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether requests can be taken: everything that they need is there."""
        return self.gate_or_none is not None and self.desk_or_none is not None

    @property
    def gate(self) -> Gate:
        """Who lets callers in, once the keys are open."""
        assert self.gate_or_none is not None, "the gate is asked for before the boot has opened the keys"
        return self.gate_or_none

    @property
    def keys(self) -> KeyRing:
        """The keys, once they are open."""
        return self.gate.keys

    @property
    def desk(self) -> Desk:
        """Where commands are carried out, once the journal is open."""
        assert self.desk_or_none is not None, "the desk is asked for before the boot has opened it"
        return self.desk_or_none

    @property
    def runs(self) -> RunsModel:
        """The read model of runs, once it is open."""
        assert self.runner is not None, "the read model is asked for before the boot has opened it"
        return self.runner.runs

    @property
    def past(self) -> PastRuns:
        """Lists of runs as they were, once the read model is open."""
        if self._past is None:
            self._past = PastRuns(self.runs, self.desk.journal.store)
        return self._past

    async def close_past(self) -> None:
        """Begin no more lists of the past, once none is under way."""
        if self._past is not None:
            await asyncio.to_thread(self._past.close)

    @property
    def stopping(self) -> bool:
        """Whether the service begins nothing new."""
        return self.stage == "stopping"

    def use_keys(self, keys: KeyRing) -> None:
        """Let callers in by these keys; the streams of one that is revoked end."""
        self.gate_or_none = Gate(keys, self.tickets, Strangers(self.settings.key_failures))
        keys.on_revoked = self.streams.revoked

    def stop_taking(self) -> None:
        """Begin nothing new: waiting claims and reads end, streams end as ours; what is under way goes on."""
        self.stage, self.step = "stopping", "draining"
        self._told_to_stop.set()
        if self.desk_or_none is not None:
            self.desk_or_none.live.bells.close()
        self.streams.stop()

    async def before_stop(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether this work came to its end before the service began to stop; it is cancelled when it did not.

        For work that only waits: a read that holds up the end of the service would lose its answer with it.
        """
        doing = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._told_to_stop.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            stopping.cancel()
            doing.cancel()

    def report(self) -> dict[str, Any]:
        """How every part of the service is."""
        desk, journal = self.desk, self.desk.journal
        loops: dict[str, Any] = {}
        if self.manager is not None:
            loops["process_manager"] = {
                "kept": dict(self.manager.counts),
                "failed": dict(self.manager.failures),
                "first_error": self.manager.first_error,
            }
        if self.runner is not None:
            loops["projections"] = self.runner.health()
        if self.checkpoints is not None:
            loops["checkpoints"] = self.checkpoints.health()
        marks = desk.evidence.presence
        loops["presence"] = {**marks.sizes(), "unrecorded_drops": marks.unrecorded_drops, "first_error": marks.trouble}
        unseen, undestroyed = self.overdue or (Unseen(desk), Undestroyed(desk))
        loops["observers"], loops["teardown"] = observers(desk, unseen), teardown(desk, undestroyed)
        return {
            "status": self.health.status(),
            "first_error": self.health.error(),
            "unknowns": unknowns(desk),
            "refused_stale": dict(self.health.refused_stale),
            "unfenced": dict(desk.unfenced),
            "loops": loops,
            "streams": len(self.streams),
            "journal": {
                "kind": journal.kind,
                "epoch": journal.epoch,
                "boot_id": self.boot_id,
                "position": journal.position,
                "last_append_at": journal.last_append_at,
                "queued": journal.queued,
            },
        }
