"""Wanting runs and steering them: what a leader, an operator or a reader may ask."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Unpack
from urllib.parse import quote

from jackline._sync.pause import pause
from jackline._sync.streams import EventStream
from jackline._sync.transport import Ask, Transport
from jackline.decode import decode, decode_list, member, parsed
from jackline.models import (
    SETTLED_TOPIC,
    At,
    Chunk,
    Effect,
    Fact,
    Facts,
    Output,
    Page,
    Run,
    RunFilter,
    Submission,
    SubmitOptions,
    Submitted,
    Why,
)
from jackline.retrying import Retry, Trouble

FOLLOW = Retry(patience_s=60.0)
WAIT_STEP_S = 30.0  # the longest that one call waits for a settlement; the service bounds it at 60


def run_path(run_id: str, *more: str) -> str:
    """The path of a run, or of something below it; ids and keys are never trusted to be url-safe."""
    return "/".join(("/v1/runs", quote(run_id, safe=""), *(quote(part, safe="") for part in more)))


class Runs:
    """Operations on runs that need no lease."""

    transport: Transport

    def _run(self, run_id: str, verb: str, body: Any) -> Run:
        reply = self.transport.ask(Ask("POST", run_path(run_id, verb), body))
        return decode(Run, reply.body)

    def submit(self, payload: Any = None, **options: Unpack[SubmitOptions]) -> Submitted:
        """The receipt for a new run; a repeat under the same `idempotency_key` gets the first receipt again."""
        reply = self.transport.ask(Ask("POST", "/v1/runs", {"payload": payload, **options}))
        return decode(Submitted, reply.body)

    def submit_many(self, runs: Sequence[Submission]) -> list[Submitted]:
        """Receipts for up to 1,000 runs, in order; all are submitted or none."""
        reply = self.transport.ask(Ask("POST", "/v1/runs/batch", {"runs": list(runs)}))
        return decode_list(Submitted, member(reply.body, "runs"))

    def run(self, run_id: str, *, min_position: int | None = None, at: At | None = None) -> Run:
        """The run as it is now, or as it was at a position or an instant."""
        params = {"min_position": min_position, "at": place(at)}
        reply = self.transport.ask(Ask("GET", run_path(run_id), params=params))
        return decode(Run, reply.body)

    def wait(self, run_id: str, timeout_s: float | None = None) -> Run:
        """The run once it has settled, or as it is after `timeout_s`."""
        started_at = self.transport.clock.now()
        while True:
            waited_s = self.transport.clock.now() - started_at
            step_s = WAIT_STEP_S if timeout_s is None else max(0.0, min(WAIT_STEP_S, timeout_s - waited_s))
            params = {"until": "settled", "wait_s": step_s}
            reply = self.transport.ask(Ask("GET", run_path(run_id), params=params, timeout_s=step_s + 10.0))
            run = decode(Run, reply.body)
            if run.settled or (timeout_s is not None and waited_s + step_s >= timeout_s):
                return run

    def runs(self, **narrow: Unpack[RunFilter]) -> Page:
        """One page of runs, as they are or, with `at`, as they were; go on with `cursor=page.next_cursor`."""
        params = {**narrow, "at": place(narrow.get("at"))}
        reply = self.transport.ask(Ask("GET", "/v1/runs", params=params))
        return decode(Page, reply.body)

    def every_run(self, **narrow: Unpack[RunFilter]) -> Iterator[Run]:
        """Every run of all pages."""
        while True:
            page = self.runs(**narrow)
            yield from page.items
            if page.next_cursor is None:
                return
            narrow["cursor"] = page.next_cursor

    def facts_page(self, run_id: str, *, after: int | None = None, limit: int = 1000) -> Facts:
        """Facts of a run after a position, in order, of all its streams."""
        ask = Ask("GET", run_path(run_id, "facts"), params={"after": after, "limit": limit})
        return decode(Facts, (self.transport.ask(ask)).body)

    def facts(self, run_id: str, *, after: int | None = None) -> Iterator[Fact]:
        """Every fact of a run that is there now, in order."""
        while True:
            page = self.facts_page(run_id, after=after)
            yield from page.facts
            if not page.facts or page.next_after is None or page.next_after == after:
                return
            after = page.next_after

    def follow(
        self,
        run_id: str,
        *,
        after: int | None = None,
        until_settled: bool = True,
        retry: Retry = FOLLOW,
        on_trouble: Trouble | None = None,
    ) -> Iterator[Fact]:
        """Facts of a run as they happen, each once, across reconnects; ends at the settlement unless told otherwise.

        `on_trouble` is told, once each time, when nobody answers any more and it is tried again.
        """
        last_id = None if after is None else str(after)
        stream = EventStream(self.transport, run_path(run_id, "facts"), {}, last_id)
        stream.on_trouble = on_trouble
        for frame in stream.frames(retry, endless=True):
            fact = decode(Fact, json_of(frame.data))
            yield fact
            if until_settled and settles(fact):
                return

    def output(
        self, run_id: str, *, after: str | None = None, retry: Retry = FOLLOW, on_trouble: Trouble | None = None
    ) -> Iterator[Chunk]:
        """The run's output, old and new, until it has settled; `after` is `<fence>.<seq>`, `on_trouble` as above."""
        stream = EventStream(self.transport, run_path(run_id, "output"), {}, after)
        stream.on_trouble = on_trouble
        while True:
            for frame in stream.frames(retry, endless=False):
                if frame.name == "output":
                    yield decode(Chunk, json_of(frame.data))
            # An orderly end is the run's, or that of a service which stops: only the run's state tells which.
            reply = self.transport.ask(Ask("GET", run_path(run_id)), retry)
            if decode(Run, reply.body).settled:
                break
            pause(self.transport.clock.jitter(retry.first_s))
        # It may have settled since the stream ended, and have written more before.
        yield from self.output_so_far(run_id, after=stream.last_id)

    def output_so_far(self, run_id: str, *, after: str | None = None) -> Iterator[Chunk]:
        """The output that is there now, of all attempts, in order."""
        while True:
            page = decode(
                Output, (self.transport.ask(Ask("GET", run_path(run_id, "output"), params={"after": after}))).body
            )
            yield from page.chunks
            if not page.chunks or page.next_after is None or page.next_after == after:
                return
            after = page.next_after

    def why(self, run_id: str, *, at: At | None = None) -> Why:
        """Why the run is, or was at a position or an instant, in its state, with the facts that led there."""
        ask = Ask("GET", run_path(run_id, "why"), params={"at": place(at)})
        return decode(Why, (self.transport.ask(ask)).body)

    def effects(self, run_id: str) -> list[Effect]:
        """The run's effect ledger."""
        reply = self.transport.ask(Ask("GET", run_path(run_id, "effects")))
        return decode_list(Effect, member(reply.body, "effects"))

    def cancel(self, run_id: str, *, keep_workspaces: bool = False) -> Run:
        """Ask the holder to end; without a holder the run is cancelled at once."""
        return self._run(run_id, "cancel", {"keep_workspaces": keep_workspaces})

    def pause(self, run_id: str) -> Run:
        """Pause the run, once its holder has let go of it."""
        return self._run(run_id, "pause", {})

    def resume(self, run_id: str) -> Run:
        """Bring a paused run, or one that waits for a take-over, back."""
        return self._run(run_id, "resume", {})

    def answer(self, run_id: str, answer: Any) -> Run:
        """Answer the question that the run waits on."""
        return self._run(run_id, "answer", {"answer": answer})

    def verdict(self, run_id: str, verdict: str, result: Any = None) -> Run:
        """Judge a run that waits for its leader's verdict: `succeeded` or `failed`."""
        return self._run(run_id, "verdict", {"verdict": verdict, "result": result})

    def retry(self, run_id: str) -> Submitted:
        """The receipt of a new run with the same payload, linked to this one."""
        return decode(Submitted, (self.transport.ask(Ask("POST", run_path(run_id, "retry"), {}))).body)


def place(at: At | None) -> str | int | None:
    """A place in the journal as it is asked for."""
    return at.isoformat() if isinstance(at, datetime) else at


def json_of(text: str) -> Any:
    """JSON of a frame's data."""
    return parsed(text, "a frame's data")


def settles(fact: Fact) -> bool:
    """Whether nothing will happen to the run after this fact."""
    if fact.topic == SETTLED_TOPIC:
        return True
    state = fact.data.get("state") if isinstance(fact.data, dict) else None
    return fact.topic in ("run.closed.v1", "run.verdict_rendered.v1") and state in ("succeeded", "failed", "cancelled")
