"""Facts as CloudEvents (1.0, JSON): for export, for consumers of the journal, and back into the bytes that were stored.

``data`` is the fact's own bytes. ``id`` is the fact's id, ``type`` its stored name, ``subject`` its stream, ``time``
the instant of recording, ``source`` the journal. The rest are extensions: ``position``, ``version``, ``hash`` (in
hexadecimal) and the metadata, under names without underscores, as the format wants them.

The bytes that are in the hash chain are made again from it: ``form`` says which of the two stored forms they
have, and in the rare case that neither gives them back exactly, ``state`` holds them (base64).
"""

from datetime import datetime
from typing import Any

import msgspec

from domain.values import Json
from journal.chain import Row
from journal.mapper import Codec, Meta, encode_named

SOURCE = "urn:jackline:journal:"
FORM_NAMED, FORM_PLACED = 1, 2


class CloudFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fact."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: str
    position: int
    version: int
    hash: str
    causationid: str | None = None
    correlationid: str | None = None
    commandid: str | None = None
    principal: str | None = None
    tenant: str | None = None
    traceparent: str | None = None
    form: int = FORM_PLACED
    state: bytes | None = None
    data: Json


def cloud_fact_of(row: Row, codec: Codec, journal_id: str) -> CloudFact:
    """What a stored row is outside.

    Raises:
        UndecodableFact: its bytes are no fact.
    """
    position, stream, version, topic, state, _, digest = row
    envelope = codec.decode_raw(topic, state, stream, version)
    form, exact = _form_of(state, envelope.meta, envelope.data, stream, codec)
    meta = envelope.meta
    return CloudFact(
        specversion="1.0", id=meta.fact_id, source=SOURCE + journal_id, type=topic, subject=stream,
        time=meta.recorded_at, datacontenttype="application/json", position=position, version=version,
        hash=digest.hex(), causationid=meta.causation_id, correlationid=meta.correlation_id,
        commandid=meta.command_id, principal=meta.principal, tenant=meta.tenant, traceparent=meta.traceparent,
        form=form, state=None if exact else state, data=envelope.data,
    )  # fmt: skip


def state_of(fact: CloudFact, codec: Codec) -> bytes:
    """The bytes that were stored for this fact."""
    if fact.state is not None:
        return fact.state
    meta = Meta(
        fact.id, fact.time, fact.causationid, fact.correlationid, fact.commandid, fact.principal, fact.tenant,
        fact.traceparent,
    )  # fmt: skip
    return _stored(fact.form, meta, fact.data, fact.subject, codec)


def _form_of(state: bytes, meta: Meta, data: Json, stream: str, codec: Codec) -> tuple[int, bool]:
    """The form of stored bytes, and whether encoding in that form gives exactly them."""
    form = FORM_PLACED if state[:1] == b"[" else FORM_NAMED
    return form, _stored(form, meta, data, stream, codec) == state


def _stored(form: int, meta: Meta, data: Any, stream: str, codec: Codec) -> bytes:
    return codec.encode(meta, data, stream) if form == FORM_PLACED else encode_named(meta, data)
