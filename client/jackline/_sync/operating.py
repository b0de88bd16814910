"""Looking after the service: queues, keys, health."""

from typing import Any
from urllib.parse import quote

from jackline._sync.lists import every_item
from jackline._sync.transport import Ask, Transport
from jackline.decode import decode, decode_list, member
from jackline.errors import Unknown
from jackline.keys import Key, Who
from jackline.retrying import Retry

ONCE = Retry(patience_s=0.0)


class Operating:
    """Operations of operators and admins."""

    transport: Transport

    def _get(self, path: str) -> Any:
        return (self.transport.ask(Ask("GET", path))).body

    def queues(self) -> list[dict[str, Any]]:
        """Every queue with its limits, what waits in it and since when, and how fast runs come and go."""
        return [item for item in every_item(self.transport, "/v1/queues", {})]

    def queue(self, queue: str) -> dict[str, Any]:
        """One queue; one that nobody has used yet has the default limits and nothing in it."""
        return dict(self._get(f"/v1/queues/{quote(queue, safe='')}"))

    def set_queue(self, queue: str, *, max_leases: int | None = None, max_per_key: int | None = 1) -> Any:
        """The queue with new limits; lowering one revokes nothing."""
        body = {"max_leases": max_leases, "max_per_key": max_per_key}
        return (self.transport.ask(Ask("PUT", f"/v1/queues/{quote(queue, safe='')}", body))).body

    def create_key(self, name: str, role: str, **bounds: Any) -> Key:
        """A new key; its secret is in this answer and nowhere else. Bounds: leader_ids, worker_ids, not_after."""
        body = {"name": name, "role": role, **{bound: value for bound, value in bounds.items() if value is not None}}
        return decode(Key, (self.transport.ask(Ask("POST", "/v1/keys", body))).body)

    def keys(self) -> list[Key]:
        """Every key, without its secret."""
        return decode_list(Key, member(self._get("/v1/keys"), "items"))

    def revoke_key(self, key_id: str) -> None:
        """The key opens nothing from now on."""
        self.transport.ask(Ask("DELETE", f"/v1/keys/{quote(key_id, safe='')}"))

    def whoami(self) -> Who:
        """Who the service takes the caller for."""
        return decode(Who, self._get("/v1/whoami"))

    def version(self) -> Any:
        """The service's version."""
        return self._get("/v1/version")

    def health(self) -> Any:
        """What the service says about its own health."""
        return self._get("/healthz")

    def acknowledge_health(self) -> None:
        """Put a sticky error that somebody has seen to rest."""
        self.transport.ask(Ask("POST", "/v1/health/ack", {}))

    def ready(self) -> bool:
        """Whether the service is there and has booted; an answer of *not yet* and no answer are both False."""
        try:
            self.transport.ask(Ask("GET", "/readyz", timeout_s=2.0), ONCE)
        except Unknown:
            return False
        return True
