"""Following a run on a terminal: its output as it comes, and what happens to it in between.

Output goes where it went in the run: stdout to standard output, everything else to standard error. What the journal
says (a worker started it, it died, another took over, it waits for an answer) is told on standard error, one line
each. For programs every piece of output is a JSON document on a line of standard output, so that nothing that the run
prints can be taken for what is said of it.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from jackline._async.client import AsyncClient
from jackline.cli.exits import complain
from jackline.cli.show import Waiting, brief, print_json
from jackline.errors import JacklineError
from jackline.models import Chunk, Fact

# What the run's leader can do about a wait, by its kind.
WAYS_ON = {
    "paused": "`jackline resume {}` lets it go on",
    "waiting_takeover": "`jackline resume {}` lets it go on",
    "waiting_input": "`jackline answer {} ANSWER` lets it go on",
    "waiting_verdict": "`jackline verdict {} succeeded` (or `failed`) ends it",
}
Teller = Callable[[Mapping[str, Any]], str | None]


def _parked(data: Mapping[str, Any]) -> str:
    question = brief(data.get("question"))
    return f"waits ({data.get('kind')}): {question}" if question else f"waits ({data.get('kind')})"


def _closed(data: Mapping[str, Any]) -> str | None:
    if data.get("state") != "waiting_verdict":
        return None
    return f"its worker closed it as {data.get('outcome')}, and it waits for its leader's verdict"


def _ended(data: Mapping[str, Any]) -> str | None:
    due = data.get("due_at")
    return f"attempt ended: {data.get('outcome')}" + (f", due again at {due}" if due else "")


TELLERS: dict[str, Teller] = {
    "run.attempt_started.v1": lambda data: f"worker {data.get('worker')} acts under fence {data.get('fence')}",
    "run.attempt_ended.v1": _ended,
    "run.parked.v1": _parked,
    "run.closed.v1": _closed,
    "run.input_provided.v1": lambda data: "answered",
    "run.resumed.v1": lambda data: "resumed",
    "run.cancel_requested.v1": lambda data: "asked to end",
    "run.pause_requested.v1": lambda data: "asked to pause",
    "run.worker_timeout.v1": lambda data: f"timeout: {data.get('kind')}",
    "run.timeout_acknowledged.v1": lambda data: f"timeout answered: {data.get('answer')}",
    "run.reassigned.v1": lambda data: f"led by {data.get('leader_id')} now",
}


async def narrate(client: AsyncClient, run_id: str, waiting: Waiting) -> None:
    """Tell what happens to a run until it has settled; the first thing told ends the waiting."""
    try:
        async for fact in client.follow(run_id):
            told = _told(fact)
            if told:
                waiting.over()
                complain(told, _way_on(fact, run_id))
    except JacklineError as error:
        complain(f"what happens to the run cannot be followed any more: {error}")


def _told(fact: Fact) -> str | None:
    teller = TELLERS.get(fact.topic)
    return teller(fact.data) if teller is not None and isinstance(fact.data, Mapping) else None


def _way_on(fact: Fact, run_id: str) -> str:
    """What ends the wait that this fact begins; empty when it begins none."""
    data = fact.data if isinstance(fact.data, Mapping) else {}
    waits = {"run.parked.v1": data.get("kind"), "run.closed.v1": data.get("state")}.get(fact.topic)
    return WAYS_ON.get(str(waits), "").format(run_id)


def trying_again(trouble: JacklineError, for_s: float) -> None:
    """Nobody answers: say so, because otherwise nothing would be seen until somebody does or it is given up."""
    complain(f"{trouble}: trying again for {for_s:g} s")


def print_chunk(chunk: Chunk) -> None:
    """One piece of output, where it belongs."""
    stream = sys.stdout if chunk.stream == "stdout" else sys.stderr
    stream.write(chunk.data)
    stream.flush()


async def follow_output(client: AsyncClient, run_id: str, *, json: bool = False) -> None:
    """Print a run's output until it has settled; `json`: one document a line, whichever stream it went to."""
    async for chunk in client.output(run_id, on_trouble=trying_again):
        if json:
            print_json(chunk, line=True)
        else:
            print_chunk(chunk)
