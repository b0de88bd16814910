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
        super().__init__(
            f"{path} cannot be used: {problem}",
            "move it away; it holds nothing that the journal does not, and is made again at the next start",
            path=path,
        )
