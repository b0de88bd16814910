"""Being a worker: registering, claiming, staying.

A process may register as an *instance* (1 to 128 characters of `[A-Za-z0-9._-]`): it is refused with `WorkerInUse`
while another one is registered under the worker's id, and heard. From then on this client names it whenever it asks as
that worker.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jackline._async.lists import every_item
from jackline._async.runs import run_path
from jackline._async.transport import Ask, AsyncTransport
from jackline.decode import decode, decode_list, member
from jackline.models import Claim, LeaseRef, Renewal, Reservation, WorkerInfo
from jackline.retrying import Retry

ONCE = Retry(patience_s=0.0)


def worker_path(worker_id: str, *more: str) -> str:
    """The path of a worker, or of something below it."""
    return "/".join(("/v1/workers", quote(worker_id, safe=""), *more))


class AsyncWorking:
    """Operations of and on workers."""

    transport: AsyncTransport

    async def register_worker(
        self,
        worker_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        slots: int = 1,
        instance: str | None = None,
        where: str | None = None,
    ) -> WorkerInfo:
        """The worker, registered with these labels and slots; a repeat changes them.

        `where` tells people where the instance is: at most 256 characters.
        """
        body = {"labels": dict(labels or {}), "slots": slots} | ({} if where is None else {"where": where})
        reply = await self.transport.ask(Ask("PUT", worker_path(worker_id), body, instance=instance))
        if instance is not None:
            self.transport.instances[worker_id] = instance
        return worker_info(reply.body)

    def _instance(self, worker_id: str) -> str | None:
        """As which instance this client has registered the worker."""
        return self.transport.instances.get(worker_id)

    async def drain_worker(self, worker_id: str) -> None:
        """No more grants for this worker."""
        ask = Ask("POST", worker_path(worker_id, "drain"), {}, instance=self._instance(worker_id))
        await self.transport.ask(ask)

    async def leave(self, worker_id: str) -> None:
        """Deregister the worker; refused with `LeasesHeld` while it holds any."""
        await self.transport.ask(Ask("DELETE", worker_path(worker_id), instance=self._instance(worker_id)))

    async def quarantine(self, worker_id: str, reason: str) -> None:
        """No more grants for this worker until it is released."""
        await self.transport.ask(Ask("POST", worker_path(worker_id, "quarantine"), {"reason": reason}))

    async def release(self, worker_id: str) -> None:
        """End a worker's quarantine."""
        await self.transport.ask(Ask("POST", worker_path(worker_id, "release"), {}))

    async def workers(self, state: str | None = None) -> list[WorkerInfo]:
        """Every worker that is registered, or every one in a state: `left` and `gone` are those that were."""
        return [worker_info(item) async for item in every_item(self.transport, "/v1/workers", {"state": state})]

    async def claim(
        self, worker_id: str, queues: Sequence[str], *, limit: int = 1, wait_s: float = 0.0, key: str | None = None
    ) -> list[Claim]:
        """Up to `limit` runs that are due; waits up to `wait_s` for the first, and may return none."""
        body = {"worker_id": worker_id, "queues": list(queues), "max": limit, "wait_s": wait_s}
        instance, timeout_s = self._instance(worker_id), wait_s + 10.0
        ask = Ask("POST", "/v1/claims", body, key=key, timeout_s=timeout_s, instance=instance)
        reply = await self.transport.ask(ask, ONCE)
        return decode_list(Claim, member(reply.body, "claims"))

    async def claim_run(self, run_id: str, worker_id: str) -> Claim:
        """This very run, unless somebody holds it."""
        body, instance = {"worker_id": worker_id}, self._instance(worker_id)
        reply = await self.transport.ask(Ask("POST", run_path(run_id, "claim"), body, instance=instance))
        return decode(Claim, reply.body)

    async def reserve(self, worker_id: str, queues: Sequence[str]) -> Reservation | None:
        """A run set aside for this worker while it gets ready; None when nothing is due."""
        body = {"worker_id": worker_id, "queues": list(queues)}
        reply = await self.transport.ask(Ask("POST", "/v1/reservations", body, instance=self._instance(worker_id)))
        return decode(Reservation, reply.body) if reply.body else None

    async def bind(self, token: str, worker_id: str) -> Claim:
        """Turn a reservation into a lease: from here on there is a right to write."""
        path = f"/v1/reservations/{quote(token, safe='')}/bind"
        ask = Ask("POST", path, {"worker_id": worker_id}, instance=self._instance(worker_id))
        return decode(Claim, (await self.transport.ask(ask)).body)

    async def cancel_reservation(self, token: str) -> None:
        """Give a reservation back; nothing is counted."""
        await self.transport.ask(Ask("DELETE", f"/v1/reservations/{quote(token, safe='')}"))

    async def heartbeat(
        self, worker_id: str, leases: Sequence[LeaseRef], *, timeout_s: float = 10.0, retry: Retry = ONCE
    ) -> list[Renewal]:
        """One answer per lease: renewed, lost, or its slice has ended."""
        body = {"leases": [{"run_id": lease.run_id, "fence": lease.fence} for lease in leases]}
        path, instance = worker_path(worker_id, "heartbeat"), self._instance(worker_id)
        ask = Ask("POST", path, body, timeout_s=timeout_s, instance=instance)
        return decode_list(Renewal, member((await self.transport.ask(ask, retry)).body, "leases"))


def worker_info(document: Any) -> WorkerInfo:
    """A worker's document, with everything else that it says kept as `raw`."""
    return decode(WorkerInfo, {**document, "raw": document} if isinstance(document, dict) else document)
