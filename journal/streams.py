"""Folded states of streams, in a bounded cache of immutable values.

A state is read from the journal on a miss and moved on by ``apply`` once facts are durable, never before. Whatever is
unknown is evicted and read again: after a lost race, after any error, and when a fact arrives that does not follow the
cached version. Only the event loop touches it.

Caches are ordered dicts, here and wherever much is kept: a plain dict finds its first key by walking over all places
that have become free before it, which in a full cache of 100,000 are tens of thousands for each one that enters.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from journal.mapper import Recorded
from journal.topics import FOLDS, Fold, prefix_of

MAX_STATES = 100_000
"""States kept; beyond it the longest unused are dropped and read again when needed."""

log = logging.getLogger(__name__)


class StreamSource(Protocol):
    """Where a stream is read on a miss."""

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, in order."""


class Streams:
    """States by stream name, as of the last durable append."""

    def __init__(
        self, source: StreamSource, folds: Mapping[str, Fold] = FOLDS, *, max_states: int = MAX_STATES
    ) -> None:
        self._source = source
        self._folds = folds
        self._max = max_states
        self._states: OrderedDict[str, Any] = OrderedDict()

    def load(self, stream: str) -> Any:
        """The state of a stream; its kind's initial state when it has no facts.

        Raises:
            KeyError: no fold is known for this kind of stream.
        """
        states = self._states
        state = states.get(stream)
        if state is not None:
            states.move_to_end(stream)
            return state
        state = states[stream] = self._read(stream)
        if len(states) > self._max:
            states.popitem(last=False)
        return state

    def fresh(self, stream: str) -> None:
        """Note that a stream has no facts yet, so that its first look-up need not ask storage."""
        self._states.setdefault(stream, self._folds[prefix_of(stream)].initial)

    def _read(self, stream: str) -> Any:
        initial, evolve = self._folds[prefix_of(stream)]
        state = initial
        for recorded in self._source.stream(stream):
            state = evolve(state, recorded.fact)
        return state

    def evict(self, streams: Iterable[str]) -> None:
        """Forget these, so that they are read again."""
        for stream in streams:
            self._states.pop(stream, None)

    def clear(self) -> None:
        """Forget everything."""
        self._states.clear()

    def apply(self, facts: Iterable[Recorded]) -> None:
        """Move cached states on by facts that have become durable; a new stream enters the cache with its first."""
        states = self._states
        for recorded in facts:
            state = states.get(recorded.stream)
            if state is None:
                if recorded.version != 1 or (fold := self._folds.get(prefix_of(recorded.stream))) is None:
                    continue
                state = fold.initial
            if state.version >= recorded.version:
                continue  # it was read after the append and before this
            after = self._after(state, recorded) if state.version == recorded.version - 1 else None
            if after is None:
                states.pop(recorded.stream, None)
            else:
                states[recorded.stream] = after
        while len(states) > self._max:
            states.popitem(last=False)

    def _after(self, state: Any, recorded: Recorded) -> Any | None:
        try:
            return self._folds[prefix_of(recorded.stream)].evolve(state, recorded.fact)
        except Exception:  # a fold that raises is a bug, and must not stop what others wait for
            log.exception("folding %s@%d failed; it will be read again", recorded.stream, recorded.version)
            return None
