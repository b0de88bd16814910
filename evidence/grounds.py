"""What was last heard about workspaces and of those who watch them: assertions, last words, observers, lists under way.

An *assertion* says that a workspace is still needed; what follows from its age is journaled before it happens. The
*last words* are the reason and message that were seen last, so that a loss which comes without any can say why.
The *observer* of a scope is whoever reported on it last under a live lease; when that lease ends nobody watches the
scope. A *list under way* collects what a list that is larger than one batch has named so far.

Losing all of it is harmless: a missing assertion is made as now, a missing observer has reported nothing yet, and a
list that was under way is begun anew.
"""

from collections import Counter
from datetime import datetime

import msgspec

from domain.values import Moment
from domain.workspace_facts import LastSeen
from evidence.taken import Taken

ScopeKey = tuple[str, str]
"""(tenant, scope)."""

SCOPES_PER_OBSERVER_MAX = 64
"""Scopes that one observer's run is known to watch; of more, the oldest are forgotten."""
PARTS_MAX = 1_000
"""Parts that one list of a scope may have."""
LISTS_MAX = 256
"""Lists that are under way at one time; of more, the oldest are forgotten, and their observers begin anew."""


class Asserted(msgspec.Struct, frozen=True):
    """Since when the idle time of a workspace runs, in monotonic seconds, and which assertion began it."""

    mono: float
    at: datetime | None = None
    """Null: no assertion, but the start of this node, which may have missed any number of them."""


class Observer(msgspec.Struct, frozen=True):
    """Who watches a scope: its run, the fence under which it reported, and when it did so last."""

    run_id: str
    fence: int
    seen: Moment


class Listed(msgspec.Struct):
    """One list of a scope that comes in parts: which it is, how many parts came, and whom they named.

    Only workspaces that are known are kept, so it is never larger than the scope.
    """

    sync_id: str
    run_id: str
    """The run of the observer that sends it."""
    parts: int = 0
    named: set[str] = msgspec.field(default_factory=set)
    vouched: set[str] = msgspec.field(default_factory=set)
    """Those of them that are there, and are what they were."""
    as_of: int | None = None
    """The journal's position that its observer knew before it asked; whoever was attached later is not missed."""
    since: float = 0.0
    """When the list was asked for, in monotonic seconds; whoever was attached later may be missing in it."""


class GroundMarks:
    """The marks of every workspace and scope of this node."""

    def __init__(self) -> None:
        self._asserted: dict[str, Asserted] = {}
        self._words: dict[str, LastSeen] = {}
        self._observers: dict[ScopeKey, Observer] = {}
        self._watches: dict[str, dict[ScopeKey, None]] = {}
        self._lists: dict[ScopeKey, Listed] = {}
        self.reaps = Taken()
        """Workspaces whose last assertion is being judged by an append under way."""
        self.counts: Counter[str] = Counter()
        """Observations since the start of this process: applied, ignored, refused (with the code)."""

    def asserted(self, workspace_id: str, now: Moment) -> None:
        """The workspace was said to be needed."""
        self._asserted[workspace_id] = Asserted(now.mono, now.wall)

    def starts_anew(self, workspace_id: str, now: Moment) -> None:
        """This node has just started: what was asserted before is not known, and the idle time begins now."""
        self._asserted[workspace_id] = Asserted(now.mono)

    def last_asserted(self, workspace_id: str) -> Asserted | None:
        """When the workspace was last said to be needed; its creation and the start of this node count."""
        return self._asserted.get(workspace_id)

    def heard(self, workspace_id: str, words: LastSeen) -> None:
        """These are the last words about the workspace's body now."""
        if words == LastSeen():
            self._words.pop(workspace_id, None)
        else:
            self._words[workspace_id] = words

    def words(self, workspace_id: str) -> LastSeen:
        """The last reason and message of a workspace; empty when there were none."""
        return self._words.get(workspace_id, LastSeen())

    def forget(self, workspace_id: str) -> None:
        """Nothing of the workspace is left."""
        self._asserted.pop(workspace_id, None)
        self._words.pop(workspace_id, None)

    def watched(self, scope: ScopeKey, run_id: str, fence: int, now: Moment) -> None:
        """The observer that acts for this run under this fence reported on the scope."""
        before = self._observers.get(scope)
        if before is not None and before.run_id != run_id:
            self._unwatch(before.run_id, scope)
        scopes = self._watches.setdefault(run_id, {})
        scopes[scope] = None
        self._observers[scope] = Observer(run_id, fence, now)
        if len(scopes) > SCOPES_PER_OBSERVER_MAX:
            oldest = next(iter(scopes))
            del scopes[oldest], self._observers[oldest]
            self._lists.pop(oldest, None)

    def observer(self, scope: ScopeKey) -> Observer | None:
        """Who watches the scope, as far as this node has heard."""
        return self._observers.get(scope)

    def watched_by(self, run_id: str) -> list[ScopeKey]:
        """The scopes that the observer which acts for this run watches."""
        return list(self._watches.get(run_id, ()))

    def observers(self) -> list[tuple[ScopeKey, Observer]]:
        """Every scope that is watched, and by whom."""
        return list(self._observers.items())

    def unwatched(self, scope: ScopeKey) -> None:
        """Nobody watches the scope any more."""
        observer = self._observers.pop(scope, None)
        self._lists.pop(scope, None)
        if observer is not None:
            self._unwatch(observer.run_id, scope)

    def _unwatch(self, run_id: str, scope: ScopeKey) -> None:
        scopes = self._watches.get(run_id)
        if scopes is not None:
            scopes.pop(scope, None)
            if not scopes:
                del self._watches[run_id]

    def listing(self, scope: ScopeKey) -> Listed | None:
        """The list of the scope that is under way."""
        return self._lists.get(scope)

    def list_begins(self, scope: ScopeKey, listed: Listed) -> None:
        """A list of the scope begins; one that was under way is void."""
        self._lists.pop(scope, None)
        self._lists[scope] = listed
        if len(self._lists) > LISTS_MAX:
            del self._lists[next(iter(self._lists))]

    def list_ends(self, scope: ScopeKey) -> None:
        """The list of the scope is complete, or void."""
        self._lists.pop(scope, None)

    def sizes(self) -> dict[str, int]:
        """How many marks are kept."""
        return {
            "asserted": len(self._asserted),
            "words": len(self._words),
            "observers": len(self._observers),
            "lists": len(self._lists),
        }
