"""Every command on a run by name, each with the decision of the domain that it asks for.

The names are the vocabulary of `tests.domain.table` and of the written pages.
"""

from collections.abc import Callable

from domain import absence, claiming, closing, handing, quiet, settling, standing, steering
from tests.domain import commands
from tests.domain.kit import Decide

COMMANDS: dict[str, tuple[Callable[..., object], Decide]] = {
    "claim by queue": (claiming.claim, commands.claim(cause="queue")),
    "claim by id": (claiming.claim, commands.claim(cause="id")),
    "reserve": (claiming.claim, commands.reserve(token="t2")),
    "bind": (claiming.bind, commands.bind()),
    "cancel reservation": (claiming.cancel_reservation, commands.cancel_reservation()),
    "lapse": (claiming.lapse, commands.lapse()),
    "park": (handing.park, commands.park()),
    "park keeping": (handing.park, commands.park("waiting_takeover", keep=True)),
    "park paused": (handing.park, commands.park("paused")),
    "hand back": (handing.hand_back, commands.hand_back()),
    "expire": (handing.expire, commands.expire()),
    "end slice": (handing.end_slice, commands.end_slice()),
    "close succeeded": (closing.close, commands.close()),
    "close failed": (closing.close, commands.close("failed")),
    "close failed for good": (closing.close, commands.close("failed", retryable=False)),
    "close with no known exit": (closing.close, commands.close("failed", retryable=False, error="exit_unknown")),
    "cancel": (settling.cancel, commands.cancel()),
    "cancel due": (settling.cancel_due, commands.cancel_due()),
    "verdict": (settling.verdict, commands.verdict()),
    "report stop": (settling.report_stop, commands.report_stop()),
    "answer": (steering.answer, commands.answer()),
    "resume": (steering.resume, commands.resume()),
    "pause": (steering.pause, commands.pause()),
    "leader gone": (absence.leader_gone, commands.leader_gone()),
    "tell": (quiet.tell, commands.tell()),
    "acknowledge": (quiet.acknowledge, commands.acknowledge()),
    "reassign": (quiet.reassign, commands.reassign()),
    "guarded write": (standing.holder, commands.write()),
}
