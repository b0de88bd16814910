"""Facts to bytes and back: one envelope, one encoding, and the library's mapper on top of both.

A stored fact is one JSON object: ``{"meta": {...}, "data": {...}}``. ``meta`` says who, when and why (``Meta``),
``data`` is the fact. Absent values are left out. User JSON inside a fact is copied as the bytes that arrived, so what
is replayed is exactly what was sent.

Reading is strict where meaning is at stake and lenient where it is not: an unknown topic is an error and never an
import, a payload that lacks a value is an error, and fields that a newer version added are ignored.

``FactMapper`` lets the library's repository, event store and notification log read and write the same bytes.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from eventsourcing.persistence import Mapper, Notification, StoredEvent, Transcoder

from domain.values import Fact, Json
from journal.errors import UndecodableFact, UnknownTopic
from journal.topics import TOPICS, Topics
from journal.upcast import UPCASTS, Upcast, upcast

T = TypeVar("T")
S = TypeVar("S")


class Meta(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Who recorded a fact, when and because of what; ``recorded_at`` is aware UTC."""

    fact_id: str
    recorded_at: datetime
    causation_id: str | None = None
    correlation_id: str | None = None
    command_id: str | None = None
    principal: str | None = None
    tenant: str | None = None
    traceparent: str | None = None


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A fact in its place: position in the journal, version in its stream, and its metadata."""

    position: int
    stream: str
    version: int
    topic: str
    fact: Fact
    meta: Meta

    @property
    def originator_id(self) -> str:
        """The stream, under the library's name."""
        return self.stream

    @property
    def originator_version(self) -> int:
        """The version, under the library's name."""
        return self.version


class Envelope(msgspec.Struct, Generic[T], gc=False):
    """The one object that is encoded."""

    meta: Meta
    data: T


_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(Envelope[dict[str, Json]])
_UNREADABLE = (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError)
"""What decoding raises, and what a step from an old payload may raise on one that it does not expect."""


class Codec:
    """Encodes and decodes facts of one closed table.

    Raises (from ``decode``):
        UnknownTopic: the name is not in the table, and no step leads from it to one that is.
        UndecodableFact: the bytes do not have the shape that the name promises.
    """

    def __init__(self, topics: Topics, upcasts: Mapping[str, Upcast] = UPCASTS) -> None:
        self.topics = topics
        self._upcasts = upcasts
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            topic: msgspec.json.Decoder(Envelope[fact_type])  # type: ignore[valid-type]
            for topic, fact_type in topics.items()
        }

    def encode(self, meta: Meta, fact: Fact) -> bytes:
        """The bytes of a fact with its metadata."""
        return _encode(Envelope(meta, fact))

    def decode(self, topic: str, state: bytes, stream: str = "", version: int = 0) -> Envelope[Any]:
        """The metadata and fact in stored bytes; stream and version are only for the message of an error."""
        decoder = self._decoders.get(topic)
        try:
            if decoder is not None:
                return decoder.decode(state)  # type: ignore[no-any-return]
            if topic in self._upcasts:
                return self._decode_old(topic, state, stream, version)
        except _UNREADABLE as error:
            raise UndecodableFact(topic, stream, version, f"{type(error).__name__} {error}") from error
        raise UnknownTopic(topic, stream, version)

    def _decode_old(self, topic: str, state: bytes, stream: str, version: int) -> Envelope[Any]:
        envelope = _fields.decode(state)
        current, fields = upcast(topic, envelope.data, self._upcasts)
        decoder = self._decoders.get(current)
        if decoder is None:
            raise UnknownTopic(current, stream, version)
        return decoder.decode(_encode(Envelope(envelope.meta, fields)))  # type: ignore[no-any-return]

    def recorded(self, row: tuple[Any, ...]) -> Recorded:
        """The fact in a row that starts with position, stream, version, topic, state."""
        position, stream, version, topic, state = row[:5]
        envelope = self.decode(topic, state, stream, version)
        return Recorded(position, stream, version, topic, envelope.data, envelope.meta)

    def correlation_of(self, row: tuple[Any, ...]) -> str | None:
        """The correlation id of the fact in such a row."""
        return self.recorded(row).meta.correlation_id


class _NoTranscoder(Transcoder):
    """The library wants a transcoder; ours is the codec, so these two only pass bytes through."""

    def encode(self, obj: Any) -> bytes:
        return bytes(obj)

    def decode(self, data: bytes) -> Any:
        return data


class FactMapper(Mapper[str]):
    """The library's mapper over our codec: ``Recorded`` is its domain event."""

    def __init__(self, codec: Codec) -> None:
        super().__init__(_NoTranscoder())
        self.codec = codec

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """The stored form of a ``Recorded`` fact."""
        return StoredEvent(
            originator_id=domain_event.stream,
            originator_version=domain_event.version,
            topic=domain_event.topic,
            state=self.codec.encode(domain_event.meta, domain_event.fact),
        )

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """The ``Recorded`` fact in a stored event or notification; position 0 where the library does not know it."""
        position = stored_event.id if isinstance(stored_event, Notification) else 0
        return self.codec.recorded(
            (
                position,
                stored_event.originator_id,
                stored_event.originator_version,
                stored_event.topic,
                stored_event.state,
            )
        )


def projector(evolve: Callable[[S, Any], S], initial: S) -> Callable[[Any, Iterable[Any]], Any]:
    """A ``projector_func`` for the library's repository that folds recorded facts; None for a stream without facts."""

    def project(state: S | None, events: Iterable[Any]) -> S | None:
        for event in events:
            state = evolve(initial if state is None else state, event.fact)
        return state

    return project


DEFAULT_CODEC = Codec(TOPICS)
