"""Answers about the journal itself, as they are described in the OpenAPI document and held against in tests."""

from datetime import datetime
from typing import Any

from pydantic import Field

from api.facts import Shown


class CloudFact(Shown):
    """One fact as a CloudEvent (1.0): `data` is the fact, `type` its stored name, `subject` its stream."""

    specversion: str
    id: str = Field(description="the fact's id")
    source: str = Field(description="the journal: `urn:jackline:journal:<id>`")
    type: str
    subject: str
    time: datetime
    datacontenttype: str
    position: int
    version: int
    hash: str = Field(description="SHA-256 of the chain up to this fact, hexadecimal")
    causationid: str | None = None
    correlationid: str | None = None
    commandid: str | None = None
    principal: str | None = None
    tenant: str | None = None
    traceparent: str | None = None
    form: int = Field(2, description="how the fact is stored: 1 by names (schema 1), 2 by place")
    state: str | None = Field(None, description="the stored bytes (base64), where they cannot be made from the rest")
    data: Any


class JournalPage(Shown):
    """Facts after a position; `next_after` is null when there are no more for now."""

    facts: list[CloudFact]
    next_after: int | None
    position: int = Field(description="the last position of the journal")
    journal_id: str
    epoch: str = Field(description="another after a restore: positions are then those of another history")
