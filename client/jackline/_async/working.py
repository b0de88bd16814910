"""Being a worker: registering, claiming, staying."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jackline._async.lists import every_item
from jackline._async.runs import run_path
from jackline._async.transport import Ask, AsyncTransport
from jackline.decode import decode, decode_list
from jackline.models import Claim, LeaseRef, Renewal, Reservation, WorkerInfo
from jackline.retrying import Retry

ONCE = Retry(patience_s=0.0)


def worker_path(worker_id: str, *more: str) -> str:
    """The path of a worker, or of something below it."""
    return "/".join(("/v1/workers", quote(worker_id, safe=""), *more))


class AsyncWorking:
    """Operations of and on workers."""

    transport: AsyncTransport

    async def _worker(self, method: str, path: str, body: Any = None) -> WorkerInfo:
        reply = await self.transport.ask(Ask(method, path, body))
        return worker_info(reply.body)

    async def register_worker(
        self, worker_id: str, *, labels: Mapping[str, str] | None = None, slots: int = 1
    ) -> WorkerInfo:
        """The worker, registered with these labels and slots; a repeat changes them."""
        return await self._worker("PUT", worker_path(worker_id), {"labels": dict(labels or {}), "slots": slots})

    async def drain_worker(self, worker_id: str) -> None:
        """No more grants for this worker."""
        await self.transport.ask(Ask("POST", worker_path(worker_id, "drain"), {}))

    async def leave(self, worker_id: str) -> None:
        """Deregister the worker; refused with `LeasesHeld` while it holds any."""
        await self.transport.ask(Ask("DELETE", worker_path(worker_id)))

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
        reply = await self.transport.ask(Ask("POST", "/v1/claims", body, key=key, timeout_s=wait_s + 10.0), ONCE)
        return decode_list(Claim, reply.body.get("claims"))

    async def claim_run(self, run_id: str, worker_id: str) -> Claim:
        """This very run, unless somebody holds it."""
        reply = await self.transport.ask(Ask("POST", run_path(run_id, "claim"), {"worker_id": worker_id}))
        return decode(Claim, reply.body)

    async def reserve(self, worker_id: str, queues: Sequence[str]) -> Reservation | None:
        """A run set aside for this worker while it gets ready; None when nothing is due."""
        body = {"worker_id": worker_id, "queues": list(queues)}
        reply = await self.transport.ask(Ask("POST", "/v1/reservations", body))
        return decode(Reservation, reply.body) if reply.body else None

    async def bind(self, token: str, worker_id: str) -> Claim:
        """Turn a reservation into a lease: from here on there is a right to write."""
        path = f"/v1/reservations/{quote(token, safe='')}/bind"
        return decode(Claim, (await self.transport.ask(Ask("POST", path, {"worker_id": worker_id}))).body)

    async def cancel_reservation(self, token: str) -> None:
        """Give a reservation back; nothing is counted."""
        await self.transport.ask(Ask("DELETE", f"/v1/reservations/{quote(token, safe='')}"))

    async def heartbeat(
        self, worker_id: str, leases: Sequence[LeaseRef], *, timeout_s: float = 10.0, retry: Retry = ONCE
    ) -> list[Renewal]:
        """One answer per lease: renewed, lost, or its slice has ended."""
        body = {"leases": [{"run_id": lease.run_id, "fence": lease.fence} for lease in leases]}
        ask = Ask("POST", worker_path(worker_id, "heartbeat"), body, timeout_s=timeout_s)
        return decode_list(Renewal, (await self.transport.ask(ask, retry)).body.get("leases"))


def worker_info(document: Any) -> WorkerInfo:
    """A worker's document, with everything else that it says kept as `raw`."""
    return decode(WorkerInfo, {**document, "raw": document} if isinstance(document, dict) else document)
