"""Facts of the journal, told as lines.

Nothing is printed that is not a fact, or the service's own answer with the fact that it follows from: each line
begins with that fact's position and instant, and its words are the fact's own values. Facts that say the same thing
from another side (a grant and the attempt that it starts) are told once.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rich.text import Text

from jackline.cli import show
from jackline.errors import FenceLost
from jackline.models import Fact

Data = Mapping[str, Any]
Teller = Callable[[Data], str]


def _started(data: Data) -> str:
    return f"attempt {data['attempt']} begins: {data['worker']} acts under fence {data['fence']}"


def _closed(data: Data) -> str:
    told = data.get("error") if data["outcome"] == "failed" else data.get("result")
    again = f"; {data['state']} again, due {_instant(data.get('due_at'))}" if data.get("state") == "queued" else ""
    return f"closed as {data['outcome']}: {show.brief(told, 70)}{again}"


def _ended(data: Data) -> str:
    work = data.get("work") or {}
    left = f" ({work['output_chunks']} chunks of output, {work['partials']} partials saved)" if work else ""
    return f"attempt {data['attempt']} under fence {data['fence']} ended: {data['outcome']}{left}"


def _expired(data: Data) -> str:
    how = "its stream broke without a goodbye" if data.get("detached") else "nobody renewed it"
    return f"the lease of {data['worker']} under fence {data['fence']} is over: {how}"


TELLERS: Mapping[str, Teller] = {
    "run.submitted.v1": lambda data: f"submitted to queue {data['queue']}",
    "run.attempt_started.v1": _started,
    "run.closed.v1": _closed,
    "run.attempt_ended.v1": _ended,
    "run.parked.v1": lambda data: f"parked, {data['kind']}: {show.brief(data.get('question'))}",
    "run.input_provided.v1": lambda data: f"answered by {data['by']}: {show.brief(data.get('answer'))}",
    "run.settled.v1": lambda data: f"settled as {data['state']}: {data['reason']}",
    "run.stop_reported.v1": lambda data: (
        f"{data['worker']}, told to stop under fence {data['fence']}: {data['report']}"
    ),
    "lease.expired.v1": _expired,
    "effect.intended.v1": lambda data: f"effect {data['key']} intended under fence {data['fence']}",
    "effect.completed.v1": lambda data: f"effect {data['key']} completed: {show.brief(data.get('outcome'))}",
    "effect.failed.v1": lambda data: f"effect {data['key']} failed",
    "effect.made_ambiguous.v1": lambda data: f"effects of which nobody knows: {show.brief(data.get('keys'))}",
}


def line_of(name: str, fact: Fact) -> Text | None:
    """The line for one fact of the run called `name`; None when another fact tells the same."""
    teller = TELLERS.get(fact.topic)
    if teller is None or not isinstance(fact.data, Mapping):
        return None
    when = "" if fact.recorded_at is None else fact.recorded_at.astimezone().strftime("%H:%M:%S.%f")[:-4]
    return Text.assemble((f"{fact.position:>4}  {when}  ", "dim"), (f"{name:<8}", "bold"), show.safe(teller(fact.data)))


def refusal_line(name: str, grant: Fact, refusal: FenceLost) -> Text:
    """The service's own words to a write under an old fence, after the grant that they follow from."""
    said = f"a close under fence {refusal.presented} is refused: {refusal.detail}"
    return Text.assemble((f"{grant.position:>4}  {'refused':<11}  ", "dim"), (f"{name:<8}", "bold"), show.safe(said))


def _instant(text: Any) -> str:
    return str(text)[11:19]
