"""A key for the commands, when the worker's own could do more than they should.

A worker that runs with an admin key must not hand it to whatever it executes: it makes one of role worker, for its
own name, and gives it back when it stops in good order. After a crash it finds it again in its place and goes on
using it, as long as the service still knows it. A worker whose own key is of role worker shares that one.

Failure: a service that does not answer is waited for; when it refuses, commands get no key at all rather than too
much of one.
"""

import contextlib
import re
from typing import Any

from jackline._async.client import AsyncClient
from jackline.errors import Forbidden, JacklineError, Problem, Unauthorised, Unknown
from jackline.worker import keeper
from jackline.worker.log import Log
from jackline.worker.persist import until_answered
from jackline.worker.places import Home

POWERFUL = frozenset({"admin", "operator"})
NO_KEY = ""


class RunKeys:
    """The key that one worker's commands are given."""

    def __init__(self, client: AsyncClient, home: Home, worker_id: str, log: Log) -> None:
        self._client = client
        self._path = home.path / "run-key.json"
        self._worker_id = worker_id
        self._log = log

    async def obtain(self) -> str | None:
        """The key for commands; None when the worker's own is the right one."""
        own = self._client.transport.address.key
        who = await until_answered(self._client.whoami, self._client.transport.clock)
        if who.role not in POWERFUL or own is None:
            return None
        saved = keeper.read(self._path)
        if self._is_mine(saved) and await self._opens(str(saved["key"])):
            return str(saved["key"])
        return await self._make()

    async def give_back(self) -> None:
        """Revoke the key that was made here."""
        saved = keeper.read(self._path)
        if self._is_mine(saved):
            with contextlib.suppress(JacklineError):
                await self._client.revoke_key(str(saved["key_id"]))
                self._path.unlink(missing_ok=True)

    def _is_mine(self, saved: Any) -> bool:
        told = (saved.get("service"), saved.get("worker_id")) if isinstance(saved, dict) else None
        mine = (self._client.transport.address.service, self._worker_id)
        return told == mine and {"key", "key_id"} <= saved.keys()

    async def _opens(self, key: str) -> bool:
        async with AsyncClient(self._client.url, key) as other:
            try:
                await other.whoami()
            except (Unauthorised, Forbidden):
                return False
            except Unknown:
                return True
        return True

    async def _make(self) -> str:
        name = "runs-of-" + re.sub(r"[^A-Za-z0-9._-]", "-", self._worker_id)[:100]
        try:
            key = await self._client.create_key(name, "worker", worker_ids=[self._worker_id])
        except (Problem, Unknown) as error:
            self._log("run_key_not_made", error=str(error))
            return NO_KEY
        service = self._client.transport.address.service
        document = {"service": service, "worker_id": self._worker_id, "key_id": key.key_id, "key": key.key}
        keeper.write(self._path, document)
        return str(key.key)
