"""Looking after the service: queues, keys, health."""

from typing import Any
from urllib.parse import quote

from jackline._async.lists import every_item
from jackline._async.transport import Ask, AsyncTransport
from jackline.decode import decode, decode_list, member
from jackline.errors import Unknown
from jackline.keys import Key, Who
from jackline.retrying import Retry

ONCE = Retry(patience_s=0.0)


class AsyncOperating:
    """Operations of operators and admins."""

    transport: AsyncTransport

    async def _get(self, path: str) -> Any:
        return (await self.transport.ask(Ask("GET", path))).body

    async def queues(self) -> list[dict[str, Any]]:
        """Every queue with its limits, what waits in it and since when, and how fast runs come and go."""
        return [item async for item in every_item(self.transport, "/v1/queues", {})]

    async def queue(self, queue: str) -> dict[str, Any]:
        """One queue; one that nobody has used yet has the default limits and nothing in it."""
        return dict(await self._get(f"/v1/queues/{quote(queue, safe='')}"))

    async def set_queue(self, queue: str, *, max_leases: int | None = None, max_per_key: int | None = 1) -> Any:
        """The queue with new limits; lowering one revokes nothing."""
        body = {"max_leases": max_leases, "max_per_key": max_per_key}
        return (await self.transport.ask(Ask("PUT", f"/v1/queues/{quote(queue, safe='')}", body))).body

    async def create_key(self, name: str, role: str, **bounds: Any) -> Key:
        """A new key; its secret is in this answer and nowhere else. Bounds: leader_ids, worker_ids, not_after."""
        body = {"name": name, "role": role, **{bound: value for bound, value in bounds.items() if value is not None}}
        return decode(Key, (await self.transport.ask(Ask("POST", "/v1/keys", body))).body)

    async def keys(self) -> list[Key]:
        """Every key, without its secret."""
        return decode_list(Key, member(await self._get("/v1/keys"), "items"))

    async def revoke_key(self, key_id: str) -> None:
        """The key opens nothing from now on."""
        await self.transport.ask(Ask("DELETE", f"/v1/keys/{quote(key_id, safe='')}"))

    async def whoami(self) -> Who:
        """Who the service takes the caller for."""
        return decode(Who, await self._get("/v1/whoami"))

    async def version(self) -> Any:
        """The service's version."""
        return await self._get("/v1/version")

    async def health(self) -> Any:
        """What the service says about its own health."""
        return await self._get("/healthz")

    async def acknowledge_health(self) -> None:
        """Put a sticky error that somebody has seen to rest."""
        await self.transport.ask(Ask("POST", "/v1/health/ack", {}))

    async def ready(self) -> bool:
        """Whether the service is there and has booted; an answer of *not yet* and no answer are both False."""
        try:
            await self.transport.ask(Ask("GET", "/readyz", timeout_s=2.0), ONCE)
        except Unknown:
            return False
        return True
