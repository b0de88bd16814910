"""One request to the service, made until somebody answers or the caller's patience is spent.

Every command carries an `Idempotency-Key`, the same one in every attempt, so that repeating a command whose answer was
lost is harmless. Reads are repeated likewise. What comes out is a `Reply`, a `Problem` (the service said no), or
`Unknown` (nobody answered), and never a guess.

When nobody answers, or somebody who is not the service, and its data dir says that it is somewhere else by now, it is
asked there at once.

Units: seconds. Bounds: `Retry.patience_s` per request, `timeout_s` per attempt.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from jackline import wire
from jackline._sync.pause import pause
from jackline.address import Address
from jackline.clock import SYSTEM, Clock
from jackline.errors import Garbled, Problem, Unauthorised, Unknown
from jackline.retrying import Patience, Retry
from jackline.sse import SILENCE_S

TIMEOUT_S = 10.0
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What to ask: method, path below the service's url, and what goes along."""

    method: str
    path: str
    body: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    timeout_s: float = TIMEOUT_S
    instance: str | None = None

    @property
    def reads(self) -> bool:
        """Whether asking changes nothing."""
        return self.method == "GET"


def as_instance(instance: str | None) -> dict[str, str]:
    """The header by which a worker's process says which one it is."""
    return {} if instance is None else {"Jackline-Instance": instance}


class Transport:
    """A pool of connections to one service, and the key to it."""

    def __init__(self, address: Address, retry: Retry, clock: Clock = SYSTEM) -> None:
        self.address = address
        self.instances: dict[str, str] = {}
        """As which instance each worker was registered over this transport."""
        self.retry = retry
        self.clock = clock
        self._comebacks: list[Callable[[], None]] = []
        self._boot = ""
        headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        # A key for a service on this machine is shown to no proxy. A plain-http client needs no certificates,
        # and loading them is most of what starting a small command costs.
        self._http = httpx.Client(
            base_url=address.url,
            headers=headers,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S),
            trust_env=not address.loopback,
            verify=address.url.startswith("https:"),
        )

    @contextmanager
    def telling(self, told: Callable[[], None]) -> Iterator[None]:
        """`told` hears, inside the block, of each time the service is back: it may not see any more what it saw."""
        self._comebacks.append(told)
        try:
            yield
        finally:
            self._comebacks.remove(told)

    def came_back(self) -> None:
        """Tell everybody who wants to know that the service is back."""
        for told in list(self._comebacks):
            told()

    def _note_boot(self, boot: str) -> None:
        """A restart that nobody noticed otherwise, because nothing was being asked meanwhile."""
        if boot and boot != self._boot:
            before, self._boot = self._boot, boot
            if before:
                self.came_back()

    def disconnect(self) -> None:
        """Close every connection."""
        self._http.close()

    def ask(self, ask: Ask, retry: Retry | None = None) -> wire.Reply:
        """The reply to `ask`; repeated under one idempotency key while nobody answers."""
        key = None if ask.reads else ask.key or self.clock.new_id()
        patience = Patience.start(retry or self.retry, self.clock)
        while True:
            try:
                return self._once(ask, key)
            except (Problem, Unknown, Garbled) as error:
                if _may_be_a_stranger(error) and self._moved():
                    continue
                at_least_s = None if isinstance(error, Garbled) else wire.repeat_after_s(error)
                wait_s = None if at_least_s is None else patience.next_pause(at_least_s)
                if wait_s is None:
                    raise
            pause(wait_s)

    def _moved(self) -> bool:
        """Whether the service is somewhere else by now; from here on it is asked there."""
        address = self.address.again()
        if address == self.address:
            return False
        self.address = address
        self._http.base_url = httpx.URL(address.url)
        return True

    def _once(self, ask: Ask, key: str | None) -> wire.Reply:
        headers = {"Accept": "application/json"} | ({"Idempotency-Key": key} if key else {}) | as_instance(ask.instance)
        content = None
        if ask.body is not None:
            headers["Content-Type"] = "application/json"
            content = wire.encode(ask.body)
        try:
            response = self._http.request(
                ask.method,
                ask.path,
                content=content,
                params={name: value for name, value in ask.params.items() if value is not None},
                headers=headers,
                timeout=httpx.Timeout(ask.timeout_s, connect=CONNECT_S),
            )
        except httpx.HTTPError as error:
            msg = f"no answer from {self.address.url}: {str(error) or type(error).__name__}"
            raise Unknown(msg, key) from error
        self._note_boot(response.headers.get("jackline-boot", ""))
        try:
            return wire.settle(response.status_code, response.content, response.headers)
        except Unknown as error:
            raise Unknown(error.message, key, error.problem) from error

    @contextmanager
    def lines(self, path: str, params: dict[str, Any], last_id: str | None) -> Iterator[Iterator[str]]:
        """The lines of an event stream, from after `last_id` on; `Unknown` when it breaks or falls silent."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = httpx.Timeout(CONNECT_S, read=SILENCE_S)
        query = {name: value for name, value in params.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=query, headers=headers, timeout=timeout) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    wire.settle(response.status_code, response.content, response.headers)
                yield response.iter_lines()
        except (httpx.HTTPError, Problem) as error:
            if isinstance(error, Problem) and not (_may_be_a_stranger(error) and self._moved()):
                raise
            msg = f"the stream {path} broke: {str(error) or type(error).__name__}"
            raise Unknown(msg) from error


def _may_be_a_stranger(error: Problem | Unknown | Garbled) -> bool:
    """Whether this is no answer of the service that the key is for: nobody's, or that of who has its old port."""
    return not isinstance(error, Problem) or isinstance(error, Unauthorised) or error.code == wire.NOT_A_PROBLEM
