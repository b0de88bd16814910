"""Server-sent events: lines in, events out.

A frame is `id:`, `event:` and `data:` lines up to an empty line; a line that opens with a colon is a comment (the
service sends one every 15 s, so that silence means something). The id of the last complete frame is what a reconnect
hands back as `Last-Event-ID`; a frame cut off in the middle was never delivered and comes again.

Units: none. Failure: none; fields that are not understood are ignored, as the standard asks.
"""

from dataclasses import dataclass, field

KEEPALIVE_S = 15.0  # the service's comment interval
SILENCE_S = 3 * KEEPALIVE_S  # a stream that is silent for longer is taken for dead


@dataclass(frozen=True, slots=True)
class Event:
    """One complete frame."""

    id: str | None
    name: str
    data: str


@dataclass(slots=True)
class EventParser:
    """Collects lines until a frame is complete; remembers the last id."""

    last_id: str | None = None
    _name: str = "message"
    _data: list[str] = field(default_factory=list)
    _id: str | None = None

    def feed(self, line: str) -> Event | None:
        """The event that this line completes, if it completes one."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def cut(self) -> None:
        """Forget an incomplete frame: the stream ended in the middle of it."""
        self._name, self._data, self._id = "message", [], None

    def _complete(self) -> Event | None:
        if self._id is not None:
            self.last_id = self._id
        event = Event(self._id, self._name, "\n".join(self._data)) if self._data else None
        self.cut()
        return event
