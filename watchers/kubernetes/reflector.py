"""Keeps a list of objects current: list it, watch what changes, list again whenever in doubt. By UID, never by name.

    list (pages, consistent) -> what vanished is told gone, the rest seen -> watch from the list's version -> complete
    the stream ends     resume from the last version; a change counts as handed on before the version moves past it
    410, either form    list again
    anything else       blind: told once, with why; after a pause list again
    every ten minutes   list again, at the end of a stream: a version from a lost future would be waited on for ever

`complete` is told only once the watch that follows the list is open: from then on nothing can happen unseen. A stream
that broke is resumed once at once, since resuming loses nothing; only when that fails too is anybody told.

*Gone* needs proof. An object also leaves a labelled list when its label is taken away; so each deletion, and each
absence from a list, is checked by asking for the name: only no answer there (404), or another UID, is an end. What is
still there is *astray*: no watch speaks of it any more, so it is asked for again whenever a stream ends.

Bounds: `Pace` says how long and how often, `OBJECTS_MAX` how many; beyond it the whole list is unknown. Failure: an
exception of the keeper is logged, counted, and followed by a fresh list, as if it had been told nothing.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jackline.clock import Clock
from jackline.retrying import Retry
from watchers.kubernetes.server import (
    LIST_LIMIT,
    ApiServer,
    Blind,
    Expired,
    Refused,
    Resource,
    Silent,
    read,
    read_shape,
)
from watchers.kubernetes.shapes import Change, Page

log = logging.getLogger(__name__)

OBJECTS_MAX: Final = 50_000
CONFIRM_AT_ONCE: Final = 8
SHORT_STREAMS_MAX: Final = 3
EMPTY_PAGES_MAX: Final = 100
"""Pages in a row that bring nothing new: a selection may skip many objects, but not for ever."""
BACKOFF: Final = Retry(first_s=0.2, cap_s=10.0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long streams last, how often everything is listed, and how pauses grow."""

    watch_least_s: int = 20
    watch_most_s: int = 60
    relist_s: float = 600.0
    backoff: Retry = BACKOFF
    list_limit: int = LIST_LIMIT
    objects_max: int = OBJECTS_MAX

    def watch_s(self, clock: Clock) -> int:
        """How long the next stream is to last: many watches that began together do not end together."""
        return self.watch_least_s + int(clock.chance() * (self.watch_most_s - self.watch_least_s + 1))

    def relist_after_s(self, clock: Clock) -> float:
        """How long until everything is listed again: ten minutes, give or take a fifth."""
        return self.relist_s * (0.8 + 0.4 * clock.chance())


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects: of what kind, where, with which labels."""

    resource: Resource
    namespace: str | None = None
    labels: str = ""

    @property
    def query(self) -> dict[str, str]:
        """How the API is asked for them."""
        return {"labelSelector": self.labels} if self.labels else {}


class Keeper(Protocol):
    """Who is told. Nothing here may block for long; the version moves on when it returns."""

    async def seen(self, found: Any) -> None:
        """An object as it is now; the same one may be told again."""

    async def gone(self, last: Any, version: str) -> None:
        """An object that is no more, as it was last, and the version that proves it."""

    async def complete(self) -> None:
        """Everything that exists has been told, and every change will be."""

    async def blind(self, why: str) -> None:
        """Nothing is known any more, until `complete`."""


class Reflector:
    """One list, kept current."""

    def __init__(self, server: ApiServer, selection: Selection, keeper: Keeper, clock: Clock, pace: Pace) -> None:
        self.selection = selection
        self.counts: Counter[str] = Counter()
        self.is_blind = True
        self.listed_at = 0.0
        """When the list that is being kept current was asked for."""
        self._server = server
        self._keeper = keeper
        self._clock = clock
        self._pace = pace
        self._known: dict[str, Any] = {}
        self._astray: dict[str, Any] = {}
        self._version = ""
        self._relist_at = 0.0
        self._complete = False
        self._told_blind: str | None = None

    async def run(self) -> None:
        """Keep it current until cancelled."""
        pauses = self._pace.backoff.pauses(self._clock)
        while True:
            lived = self.counts["lived"]
            try:
                await self._list()
                await self._follow()
                continue
            except Expired:
                self.counts["expired"] += 1
                at_least_s = 0.0
            except Blind as blindness:
                at_least_s = blindness.retry_after_s
                await self._blinded(blindness.why)
            except Refused as refusal:
                at_least_s = 0.0
                await self._blinded(str(refusal))
            except Exception as error:
                log.exception("what was seen of %s could not be handed on", self.selection.resource.plural)
                at_least_s = 0.0
                await self._blinded(f"a fault of ours: {type(error).__name__}")
            if self.counts["lived"] != lived:
                pauses = self._pace.backoff.pauses(self._clock)
            await asyncio.sleep(max(at_least_s, next(pauses)))

    async def _blinded(self, why: str) -> None:
        self.counts["blind"] += 1
        self.is_blind = True
        if self._told_blind is None:
            log.warning("%s cannot be seen: %s", self.selection.resource.plural, why)
            self._told_blind = why
            try:
                await self._keeper.blind(why)
            except Exception:
                log.exception("the keeper of %s failed", self.selection.resource.plural)

    # The list

    async def _list(self) -> None:
        """Everything there is, told; ready to be watched from there on."""
        self.counts["lists"] += 1
        self._complete = False
        self.listed_at = self._clock.now()
        listed, version = await self._everything()
        vanished = [last for uid, last in self._known.items() if uid not in listed]
        for last in await self._confirmed(vanished):
            await self._gone(last, version)
        for uid, found in listed.items():
            self._astray.pop(uid, None)
            await self._seen(found)
        self._version = version
        self._relist_at = self._clock.now() + self._pace.relist_after_s(self._clock)

    async def _everything(self) -> tuple[dict[str, Any], str]:
        """Every object by UID, and the version of the list."""
        listed: dict[str, Any] = {}
        query = {**self.selection.query, "limit": str(self._pace.list_limit)}
        empty = 0
        while empty <= EMPTY_PAGES_MAX:
            before = len(listed)
            page = await self._server.page(self.selection.resource, self.selection.namespace, query)
            for raw in page.items or ():
                found = read(self.selection.resource, raw)
                listed[found.metadata.uid] = found
            self._bound(len(listed))
            if not page.metadata.continue_:
                return listed, self._version_of(page)
            query["continue"] = page.metadata.continue_
            empty = 0 if len(listed) > before else empty + 1
        msg = f"more than {EMPTY_PAGES_MAX} pages without anything new"
        raise Blind(msg)

    @staticmethod
    def _version_of(page: Page) -> str:
        if not page.metadata.resource_version:
            msg = "a list without a version"
            raise Blind(msg)
        return page.metadata.resource_version

    def _bound(self, count: int) -> None:
        if count > self._pace.objects_max:
            msg = f"more than {self._pace.objects_max} {self.selection.resource.plural}"
            raise Blind(msg)

    # The watch

    async def _follow(self) -> None:
        """Watch until it is time to list again."""
        broken = short = 0
        while self._clock.now() < self._relist_at or not self._complete:
            lived = self.counts["lived"]
            try:
                await self._stream()
            except Silent:
                raise
            except Blind:
                # Resuming loses nothing, so it is tried once before anybody is told.
                broken += 1
                if broken > 1 or not self._complete:
                    raise
                continue
            broken = 0
            short = 0 if self.counts["lived"] != lived else short + 1
            if short >= SHORT_STREAMS_MAX:
                msg = "the server ends every stream at once"
                raise Blind(msg)
            await self._look_after_the_astray()

    async def _stream(self) -> None:
        """One watch from the last version, to its end."""
        watch_s = self._pace.watch_s(self._clock)
        asked_at = self._clock.now()
        query = {**self.selection.query, "resourceVersion": self._version}
        async with self._server.watch(self.selection.resource, self.selection.namespace, query, watch_s) as changes:
            await self._opened()
            async for change in changes:
                await self._hand_on(change)
                self.counts["lived"] += 1
        if self._clock.now() - asked_at >= watch_s / 2:
            self.counts["lived"] += 1

    async def _opened(self) -> None:
        self.is_blind = False
        self._told_blind = None
        if not self._complete:
            self._complete = True
            await self._keeper.complete()

    async def _hand_on(self, change: Change) -> None:
        if change.type == "BOOKMARK":
            bookmark = read_shape(change.object, self.selection.resource.shape, "a bookmark")
            self._version = bookmark.metadata.resource_version or self._version
            return
        found = read(self.selection.resource, change.object)
        if change.type in ("ADDED", "MODIFIED"):
            self._astray.pop(found.metadata.uid, None)
            await self._seen(found)
        elif change.type == "DELETED":
            for last in await self._confirmed([found]):
                await self._gone(last, found.metadata.resource_version)
        else:
            msg = f"a change of type {change.type[:40]!r}"
            raise Blind(msg)
        self._version = found.metadata.resource_version or self._version

    async def _seen(self, found: Any) -> None:
        self._known[found.metadata.uid] = found
        self._bound(len(self._known))
        await self._keeper.seen(found)

    # What is gone, and what only left the list

    async def adopt(self, found: Any) -> None:
        """Look after an object that no list speaks of, and that somebody stands on all the same."""
        self._astray[found.metadata.uid] = found
        await self._seen(found)

    async def _gone(self, last: Any, version: str) -> None:
        await self._keeper.gone(last, version)
        # Only now: an end that could not be handed on is found missing again.
        self._astray.pop(last.metadata.uid, None)
        self._known.pop(last.metadata.uid, None)

    async def _confirmed(self, suspects: list[Any]) -> list[Any]:
        """Those that are really no more; the others are told as seen, and kept as astray."""
        ended: list[Any] = []
        for start in range(0, len(suspects), CONFIRM_AT_ONCE):
            some = suspects[start : start + CONFIRM_AT_ONCE]
            found = await asyncio.gather(*(self._asked_for(last) for last in some))
            for last, now in zip(some, found, strict=True):
                if now is None or now.metadata.uid != last.metadata.uid:
                    ended.append(last)
                    continue
                self.counts["astray"] += 1
                await self.adopt(now)
        return ended

    async def _asked_for(self, last: Any) -> Any:
        return await self._server.get(self.selection.resource, last.metadata.namespace, last.metadata.name)

    async def _look_after_the_astray(self) -> None:
        for last in await self._confirmed(list(self._astray.values())):
            await self._gone(last, last.metadata.resource_version)
