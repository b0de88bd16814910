"""The virtual clock: two scales that move together until somebody sets the wall."""

from datetime import UTC, datetime, timedelta

from domain.values import Moment

START = Moment(datetime(2026, 1, 1, tzinfo=UTC), 1_000.0)


class VirtualClock:
    """Gives the present moment; time passes only by ``advance``. Durations in seconds."""

    def __init__(self) -> None:
        self.now = START
        self._set_forth_s = 0.0

    def __call__(self) -> Moment:
        """The present moment."""
        return self.now

    @property
    def elapsed_s(self) -> float:
        """Seconds since the world began, by the scale that nobody sets."""
        return self.now.mono - START.mono

    @property
    def longest_s(self) -> float:
        """As `elapsed_s`, with every second by which the wall was set forth: a restart takes ages from the wall."""
        return self.elapsed_s + self._set_forth_s

    def advance(self, seconds: float) -> None:
        """Let time pass on both scales; never backwards."""
        self.now = self.now.after(max(0.0, seconds))

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock, back or forth; no time passes."""
        self._set_forth_s += max(0.0, seconds)
        self.now = Moment(self.now.wall + timedelta(seconds=seconds), self.now.mono)
