"""What may be asked about runs: as they are, once they have settled, or as they were; one, or a list of them."""

from typing import Literal

from pydantic import Field

from api.requests import Reading


class ReadPast(Reading):
    """The present, or the past."""

    at: str | None = Field(
        None, max_length=64, description="a position or an RFC 3339 instant: the answer is as of then"
    )


class ReadRun(ReadPast):
    """How fresh, how far along, or how old the answer must be."""

    until: Literal["settled"] | None = Field(None, description="wait until the run has ended")
    wait_s: float = Field(0.0, ge=0.0, le=60.0, description="how long to wait for that")


class ListRuns(ReadPast):
    """Which runs, in which order, from where on."""

    state: list[str] = Field(default_factory=list, description="any of these states; may be repeated")
    queue: str | None = None
    leader_id: str | None = None
    owner: str | None = None
    tag: list[str] = Field(default_factory=list, description="`key:value`, all of them; may be repeated")
    q: str | None = Field(None, max_length=200, description="text in id or name")
    sort: str = "-submitted_at"
    limit: int = Field(50, ge=1, le=500)
    cursor: str | None = None
