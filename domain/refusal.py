"""Refusals: the domain says no, with a stable code and the facts of the case.

A refusal is not an error of the service and not an unknown outcome: nothing was changed, and the same command would
be refused again until the named facts change. ``code`` is for programs and never changes; the message is a sentence
with the values, lower-case, without a final full stop; ``fields()`` are what the caller needs to act, under the same
names in HTTP problems and in the client's exceptions. ``docs/refusals.md`` lists every one of them.
"""

from typing import Any, ClassVar


class Refusal(Exception):
    """Base of all refusals. Subclasses set ``code`` and pass their values by keyword."""

    code: ClassVar[str] = "refused"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self._fields = fields

    def fields(self) -> dict[str, Any]:
        """The values of the case, ready for a problem document."""
        return dict(self._fields)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and self.code == other.code and self._fields == other._fields

    def __hash__(self) -> int:
        return hash((type(self), self.message))


class RunUnknown(Refusal):
    """No run has this id in the caller's tenant."""

    code = "run_unknown"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run has the id {run_id!r}", run_id=run_id)


class SettledOtherwise(Refusal):
    """The run has ended, and not in the way that the command wants."""

    code = "run_settled"

    def __init__(self, *, run_id: str, state: str, reason: str | None) -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"run {run_id!r} is {state}{why} and does not change", run_id=run_id, state=state, reason=reason
        )


class WrongState(Refusal):
    """The command has no meaning in the state that the run is in."""

    code = "wrong_state"

    def __init__(self, *, run_id: str, state: str, wanted: str) -> None:
        super().__init__(
            f"run {run_id!r} is {state}, and the command is for a run that is {wanted}",
            run_id=run_id,
            state=state,
            wanted=wanted,
        )


class InvalidCommand(Refusal):
    """A value is outside its bounds; ``field`` and ``limit`` say which and what would do."""

    code = "invalid"

    def __init__(self, *, field: str, value: Any, limit: str) -> None:
        shown = "null" if value is None else repr(value)
        super().__init__(f"{field} is {shown}, and must be {limit}", field=field, value=value, limit=limit)
