"""Facts to bytes and back: one envelope, one encoding, and the library's mapper on top of both.

A stored fact is one JSON array, ``[[...], {...}]``: who, when and why (``Meta``, by place and without names), and the
fact. A correlation that the stream's own name says is the empty string. User JSON inside a fact is copied as the bytes
that arrived, so what is replayed is exactly what was sent.

Journals of schema 1 have facts in an older form, ``{"meta": {...}, "data": {...}}``, whose bytes are in the hash chain
and stay what they are; both forms are read, told apart by their first byte (docs/adr/0018).

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
from journal.topics import TOPICS, Topics, own_run
from journal.upcast import UPCASTS, Upcast, upcast

T = TypeVar("T")
S = TypeVar("S")


class Meta(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who recorded a fact, when and because of what; ``recorded_at`` is aware UTC. The fields are stored by place."""

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


class Envelope(msgspec.Struct, Generic[T], array_like=True, gc=False):
    """The one value that is encoded."""

    meta: Meta
    data: T


class NamedMeta(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """``Meta`` as schema 1 stored it; ``astuple`` of either makes the other."""

    fact_id: str
    recorded_at: datetime
    causation_id: str | None = None
    correlation_id: str | None = None
    command_id: str | None = None
    principal: str | None = None
    tenant: str | None = None
    traceparent: str | None = None


class NamedEnvelope(msgspec.Struct, Generic[T], gc=False):
    """The object that schema 1 stored."""

    meta: NamedMeta
    data: T


OWN = ""
"""The stored correlation of a fact that is filed under the run that its stream is named after."""

_ARRAY = 0x5B
_encode = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError)
"""What decoding raises, and what a step from an old payload may raise on one that it does not expect."""


class _Decoders:
    """Decoders of both forms for one type of data; the older one is made when the first old fact is read."""

    __slots__ = ("_named", "_type", "current")

    def __init__(self, data_type: Any) -> None:
        self._type = data_type
        self.current: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Envelope[data_type])
        self._named: msgspec.json.Decoder[Any] | None = None

    def named(self, state: bytes) -> Envelope[Any]:
        """What schema 1 stored."""
        if self._named is None:
            self._named = msgspec.json.Decoder(NamedEnvelope[self._type])  # type: ignore[name-defined]
        found = self._named.decode(state)
        return Envelope(Meta(*msgspec.structs.astuple(found.meta)), found.data)


class Codec:
    """Encodes and decodes facts of one closed table.

    Raises (from ``decode``):
        UnknownTopic: the name is not in the table, and no step leads from it to one that is.
        UndecodableFact: the bytes do not have the shape that the name promises.
    """

    def __init__(self, topics: Topics, upcasts: Mapping[str, Upcast] = UPCASTS) -> None:
        self.topics = topics
        self._upcasts = upcasts
        self._decoders = {topic: _Decoders(fact_type) for topic, fact_type in topics.items()}
        self._fields = _Decoders(dict[str, Json])
        self._raw = _Decoders(Json)

    def encode(self, meta: Meta, fact: Any, stream: str = "") -> bytes:
        """The bytes of a fact with its metadata, as it is stored in this stream."""
        correlation = meta.correlation_id
        if correlation is not None and own_run(stream) == correlation:
            meta = Meta(
                meta.fact_id, meta.recorded_at, meta.causation_id, OWN, meta.command_id, meta.principal, meta.tenant,
                meta.traceparent,
            )  # fmt: skip
        return _encode(Envelope(meta, fact))

    def decode(self, topic: str, state: bytes, stream: str = "", version: int = 0) -> Envelope[Any]:
        """The metadata and fact in bytes stored in this stream at this version."""
        decoders = self._decoders.get(topic)
        try:
            if decoders is not None:
                return _decoded(decoders, state, stream)
            if topic in self._upcasts:
                return self._decode_old(topic, state, stream, version)
        except _UNREADABLE as error:
            raise UndecodableFact(topic, stream, version, f"{type(error).__name__} {error}") from error
        raise UnknownTopic(topic, stream, version)

    def decode_raw(self, topic: str, state: bytes, stream: str = "", version: int = 0) -> Envelope[Json]:
        """The metadata and the fact's own bytes as they were stored, whatever the name."""
        try:
            return _decoded(self._raw, state, stream)
        except _UNREADABLE as error:
            raise UndecodableFact(topic, stream, version, f"{type(error).__name__} {error}") from error

    def _decode_old(self, topic: str, state: bytes, stream: str, version: int) -> Envelope[Any]:
        envelope = _decoded(self._fields, state, stream)
        current, fields = upcast(topic, envelope.data, self._upcasts)
        decoders = self._decoders.get(current)
        if decoders is None:
            raise UnknownTopic(current, stream, version)
        return _decoded(decoders, _encode(Envelope(envelope.meta, fields)), stream)

    def recorded(self, row: tuple[Any, ...]) -> Recorded:
        """The fact in a row that starts with position, stream, version, topic, state."""
        position, stream, version, topic, state = row[:5]
        envelope = self.decode(topic, state, stream, version)
        return Recorded(position, stream, version, topic, envelope.data, envelope.meta)

    def correlation_of(self, row: tuple[Any, ...]) -> str | None:
        """The correlation id of the fact in such a row."""
        return self.recorded(row).meta.correlation_id


def encode_named(meta: Meta, data: Any) -> bytes:
    """The bytes of a fact as schema 1 stored it."""
    return _encode(NamedEnvelope(NamedMeta(*msgspec.structs.astuple(meta)), data))


def _decoded(decoders: _Decoders, state: bytes, stream: str) -> Envelope[Any]:
    if state[0] != _ARRAY:
        return decoders.named(state)
    envelope: Envelope[Any] = decoders.current.decode(state)
    if envelope.meta.correlation_id == OWN:
        # Nobody else has seen this value yet, and making it once more costs a third of the decoding.
        msgspec.structs.force_setattr(envelope.meta, "correlation_id", _own(stream))
    return envelope


def _own(stream: str) -> str:
    run_id = own_run(stream)
    if run_id is None:
        message = f"it is filed under its stream's run, and {stream!r} is named after none"
        raise ValueError(message)
    return run_id


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
            state=self.codec.encode(domain_event.meta, domain_event.fact, domain_event.stream),
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
