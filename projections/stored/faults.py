"""What a read model answers when it cannot: not yet, not now, or not this file."""

from domain.refusal import Refusal
from journal.errors import JournalError, Unavailable


class ReadModelBehind(Refusal):
    """The read model has not reached the wanted position within the time given; a moment later it will have."""

    code = "read_model_behind"

    def __init__(self, *, wanted: int, reached: int) -> None:
        super().__init__(
            f"the read model has reached position {reached}, not yet {wanted}",
            wanted=wanted, reached=reached, retry_after_s=1,
        )  # fmt: skip


class ProjectionsBusy(Unavailable):
    """Another process is writing or rebuilding the read models; what was to be written is not lost, only later."""

    code = "projections_busy"

    def __init__(self, path: str) -> None:
        super().__init__(f"another process holds {path}; wait until its rebuild is done", 1, path=path)


class ProjectionsUnusable(JournalError):
    """The file of the read models is not one, or belongs to another version or program."""

    code = "projections_unusable"

    def __init__(self, path: str, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"{path} cannot be used: {problem}",
            "`jackline projections rebuild`, or a start of the service, makes it again from the journal",
            path=path,
        )


class TooManyAside(JournalError):
    """A projection failed at so many facts that its fold must be wrong; it stops, and the others go on."""

    code = "projection_failed"

    def __init__(self, projection: str, position: int, reason: str) -> None:
        super().__init__(
            f"the projection {projection} failed at too many facts, lastly at position {position}: {reason}",
            "report it, and go back to the version before; no fact is lost by that",
            projection=projection, position=position,
        )  # fmt: skip


class ProjectionUnknown(JournalError):
    """There is no stored projection of this name."""

    code = "projection_unknown"

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__(
            f"there is no projection {name[:64]!r}", f"there are: {', '.join(names)}", name=name[:64], names=list(names)
        )


class InstantBefore(JournalError):
    """An instant at which the journal had no fact yet."""

    code = "instant_before"

    def __init__(self, instant: str, first: str | None) -> None:
        began = "it is empty" if first is None else f"its first fact is of {first}"
        super().__init__(
            f"the journal had no fact at {instant}: {began}", "give a later instant", instant=instant, first_at=first
        )
