"""What a worker says about itself: named happenings with their values, counted by name.

`claim_lost_before_finish` is the important one: an outcome that nobody wanted any more, because the run had a new
holder. Writing the log never fails the work: a sink that raises is ignored.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

Sink = Callable[[str, Mapping[str, Any]], None]

logger = logging.getLogger("jackline.worker")


def to_logging(name: str, values: Mapping[str, Any]) -> None:
    """The SDK's sink: one line per happening on the `jackline.worker` logger."""
    logger.info("%s %s", name, " ".join(f"{key}={value}" for key, value in values.items()))


class Log:
    """Tells happenings to a sink and counts them."""

    def __init__(self, sink: Sink = to_logging) -> None:
        self._sink = sink
        self.counts: Counter[str] = Counter()

    def __call__(self, happening: str, **values: Any) -> None:
        """Tell that something happened."""
        self.counts[happening] += 1
        try:
            self._sink(happening, values)
        except Exception:
            logger.exception("the worker's log sink failed")
