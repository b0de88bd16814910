"""What is put into a service's process before it serves: a disk and a wall clock that fail when they are told to.

The clock goes in where the composition root hands it out; its monotonic half stays true, as it does on a machine whose
wall clock is set. The disk goes in under SQLite.
"""

from datetime import timedelta
from pathlib import Path

import api.serve
from api.clock import system_clock
from domain.values import Moment
from tests.faults.disk import Faults, install


def spoil(place: Path) -> None:
    """Let the faults of this file reach the service that starts in this process."""
    faults = Faults(place)
    install(faults)

    def clock() -> Moment:
        now = system_clock()
        return Moment(now.wall + timedelta(seconds=faults.wall_s), now.mono)

    vars(api.serve)["system_clock"] = clock
