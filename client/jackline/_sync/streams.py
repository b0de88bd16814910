"""Following what the service tells: one event stream that outlives its connections.

A broken stream is opened again after a jittered pause, from the last event that was delivered, so that nothing is
missed and nothing comes twice. A refusal ends it. An orderly end by the service is an end, unless the caller asked to
follow on; a caller that finds it came too early goes on where it was. Patience counts from the last line that was
heard, comments among them: a stream on which nothing happened for an hour was not out of reach for an hour.
"""

from collections.abc import Iterator
from typing import Any

from jackline import wire
from jackline._sync.pause import pause
from jackline._sync.transport import Transport
from jackline.errors import Problem, Unknown
from jackline.retrying import Patience, Retry, Trouble
from jackline.sse import Event, EventParser


class EventStream:
    """Events of one path, in order, across reconnects."""

    def __init__(self, transport: Transport, path: str, params: dict[str, Any], last_id: str | None) -> None:
        self._transport = transport
        self._path = path
        self._params = params
        self._parser = EventParser(last_id)
        self.on_trouble: Trouble | None = None
        """Told when the stream broke and is opened again, once until something was heard from it."""

    @property
    def last_id(self) -> str | None:
        """The id of the last event that was delivered."""
        return self._parser.last_id

    def frames(self, retry: Retry, *, endless: bool) -> Iterator[Event]:
        """Every event; with `endless`, an orderly end is followed by another connection."""
        patience, told = Patience.start(retry, self._transport.clock), False
        while True:
            wait_s = retry.first_s
            try:
                with self._transport.lines(self._path, self._params, self._parser.last_id) as lines:
                    for line in lines:
                        patience, told = Patience.start(retry, self._transport.clock), False
                        event = self._parser.feed(line)
                        if event is not None:
                            yield event
                if not endless:
                    self._parser.cut()
                    return
            except (Problem, Unknown) as error:
                after_s = wire.repeat_after_s(error)
                longer_s = None if after_s is None else patience.next_pause(after_s)
                if longer_s is None:
                    raise
                wait_s = longer_s
                if self.on_trouble is not None and not told:
                    told = True
                    self.on_trouble(error, retry.patience_s)
            self._parser.cut()
            pause(self._transport.clock.jitter(wait_s))
