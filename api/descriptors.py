"""File descriptors: every connection takes one, the files of the service take a few, and the system says how many.

A process is usually started with a soft limit far below its hard one; the service raises it as far as it may. What is
left after `OWN` bounds the streams that are carried, so that one stream too many is refused with a code instead of
taking the descriptor that the journal needs. With fewer than `FEWEST` the service does not start: it would fail at its
first file, and name the file instead of the reason.
"""

import logging
import resource

from jackline.cli.exits import FAILED, Fault

OWN = 128
"""Kept for the service's files and for connections that are no streams."""
FEWEST = 192

log = logging.getLogger(__name__)


def carried(streams: int) -> int:
    """How many of so many streams can be carried, after the limit was raised as far as it may be.

    Raises:
        Fault: too few descriptors even to start.
    """
    limit = _raised(OWN + streams)
    if limit < FEWEST:
        message = f"at most {limit} files may be open at once, and the service needs {FEWEST}"
        raise Fault(message, f"raise the limit (`ulimit -n {FEWEST}`, or LimitNOFILE)", FAILED)
    room = limit - OWN
    if room < streams:
        log.warning("at most %d files may be open at once, so %d streams are carried, not %d", limit, room, streams)
    return min(streams, room)


def _raised(wanted: int) -> int:
    """The limit in force, raised to what is wanted if that may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    raised = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if raised > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (OSError, ValueError):
            return soft
    return max(soft, raised)
