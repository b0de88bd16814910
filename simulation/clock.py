"""Clocks: what really passes, what each machine makes of it, and by which of them the service goes.

Nobody can read `Time`; it is what the world itself goes by. Every node, worker, observer and leader has a clock of its
own, with a wall that is off, a monotonic scale that began somewhere, and a second that may be half as long or twice as
long as it should be. Nothing that the service does may depend on a clock that is not its own node's.

The laws about durations count in *served* seconds: those that passed by the clock of whichever node was in charge.
"""

from datetime import UTC, datetime, timedelta

from domain.values import Moment

START = Moment(datetime(2026, 1, 1, tzinfo=UTC), 1_000.0)


class Time:
    """Seconds since the world began, the same for everybody and shown to nobody."""

    def __init__(self) -> None:
        self.true_s = 0.0


class OwnClock:
    """The clock of one machine; ``rate`` is how many of its seconds pass in a true one."""

    def __init__(self, name: str, time: Time, began: float = START.mono) -> None:
        self.name = name
        self.rate = 1.0
        self._time = time
        self._read = Moment(START.wall + timedelta(seconds=time.true_s), began)
        self._as_of = time.true_s

    def __call__(self) -> Moment:
        """What it shows now."""
        passed = self._time.true_s - self._as_of
        if passed:
            self._read = self._read.after(passed * self.rate)
            self._as_of = self._time.true_s
        return self._read

    @property
    def skew_s(self) -> float:
        """Seconds by which its wall is ahead of what it should show."""
        return (self().wall - START.wall).total_seconds() - self._time.true_s

    def lasts_s(self, seconds: float) -> float:
        """True seconds in which so many of its own pass."""
        return seconds / self.rate

    def tick(self, seconds: float) -> None:
        """So many of its own seconds pass, to the last digit; true time passes with them."""
        after = self().after(seconds)
        self._time.true_s += seconds / self.rate
        self._read, self._as_of = after, self._time.true_s

    def set_wall(self, seconds: float) -> None:
        """Somebody sets its wall, back or forth; no time passes."""
        now = self()
        self._read = Moment(now.wall + timedelta(seconds=seconds), now.mono)

    def tune(self, skew_s: float, rate: float) -> None:
        """Its wall is so far ahead from now on, and its seconds are so much shorter."""
        self.set_wall(skew_s - self.skew_s)
        self.rate = rate

    def told(self) -> str:
        """How it goes, where that is not as it should be."""
        said = [] if abs(self.skew_s) < 0.001 else [f"its wall is {self.skew_s:+.3g} s"]
        return ", ".join(said if self.rate == 1.0 else [*said, f"its clock runs at {self.rate:g}"])


class ServiceClock:
    """The clock that the service goes by: that of the node in charge. Time passes only by ``advance``."""

    def __init__(self, time: Time, own: OwnClock) -> None:
        self.time = time
        self.own = own
        self.served_s = 0.0
        """Seconds since the world began, by the clock of whichever node was in charge."""
        self._set_forth_s = 0.0

    @property
    def now(self) -> Moment:
        """The present moment, on the node in charge."""
        return self.own()

    @property
    def longest_s(self) -> float:
        """As `served_s`, with every second by which the wall went forth: a restart takes ages from the wall."""
        return self.served_s + self._set_forth_s

    def advance(self, seconds: float) -> None:
        """Let so many seconds of the node in charge pass; never backwards."""
        self.own.tick(max(0.0, seconds))
        self.served_s += max(0.0, seconds)

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall of the node in charge."""
        self._set_forth_s += max(0.0, seconds)
        self.own.set_wall(seconds)

    def tune(self, own: OwnClock, skew_s: float, rate: float) -> None:
        """Some node's clock goes otherwise from now on."""
        before = own().wall
        own.tune(skew_s, rate)
        if own is self.own:
            self._set_forth_s += max(0.0, (own().wall - before).total_seconds())

    def hand_over(self, own: OwnClock) -> None:
        """Another node is in charge: what its wall is ahead of the other's looks like time that passed."""
        ahead_s = (own().wall - self.own().wall).total_seconds()
        self._set_forth_s += max(0.0, ahead_s)
        self.own = own
