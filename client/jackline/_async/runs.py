"""Wanting runs and steering them: what a leader, an operator or a reader may ask."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Unpack
from urllib.parse import quote

from jackline._async.pause import pause
from jackline._async.streams import AsyncEventStream
from jackline._async.transport import Ask, AsyncTransport
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


class AsyncRuns:
    """Operations on runs that need no lease."""

    transport: AsyncTransport

    async def _run(self, run_id: str, verb: str, body: Any) -> Run:
        reply = await self.transport.ask(Ask("POST", run_path(run_id, verb), body))
        return decode(Run, reply.body)

    async def submit(self, payload: Any = None, **options: Unpack[SubmitOptions]) -> Submitted:
        """The receipt for a new run; a repeat under the same `idempotency_key` gets the first receipt again."""
        reply = await self.transport.ask(Ask("POST", "/v1/runs", {"payload": payload, **options}))
        return decode(Submitted, reply.body)

    async def submit_many(self, runs: Sequence[Submission]) -> list[Submitted]:
        """Receipts for up to 1,000 runs, in order; all are submitted or none."""
        reply = await self.transport.ask(Ask("POST", "/v1/runs/batch", {"runs": list(runs)}))
        return decode_list(Submitted, member(reply.body, "runs"))

    async def run(self, run_id: str, *, min_position: int | None = None, at: At | None = None) -> Run:
        """The run as it is now, or as it was at a position or an instant."""
        params = {"min_position": min_position, "at": place(at)}
        reply = await self.transport.ask(Ask("GET", run_path(run_id), params=params))
        return decode(Run, reply.body)

    async def wait(self, run_id: str, timeout_s: float | None = None) -> Run:
        """The run once it has settled, or as it is after `timeout_s`."""
        started_at = self.transport.clock.now()
        while True:
            waited_s = self.transport.clock.now() - started_at
            step_s = WAIT_STEP_S if timeout_s is None else max(0.0, min(WAIT_STEP_S, timeout_s - waited_s))
            params = {"until": "settled", "wait_s": step_s}
            reply = await self.transport.ask(Ask("GET", run_path(run_id), params=params, timeout_s=step_s + 10.0))
            run = decode(Run, reply.body)
            if run.settled or (timeout_s is not None and waited_s + step_s >= timeout_s):
                return run

    async def runs(self, **narrow: Unpack[RunFilter]) -> Page:
        """One page of runs, as they are or, with `at`, as they were; go on with `cursor=page.next_cursor`."""
        params = {**narrow, "at": place(narrow.get("at"))}
        reply = await self.transport.ask(Ask("GET", "/v1/runs", params=params))
        return decode(Page, reply.body)

    async def every_run(self, **narrow: Unpack[RunFilter]) -> AsyncIterator[Run]:
        """Every run of all pages."""
        while True:
            page = await self.runs(**narrow)
            for run in page.items:
                yield run
            if page.next_cursor is None:
                return
            narrow["cursor"] = page.next_cursor

    async def facts_page(self, run_id: str, *, after: int | None = None, limit: int = 1000) -> Facts:
        """Facts of a run after a position, in order, of all its streams."""
        ask = Ask("GET", run_path(run_id, "facts"), params={"after": after, "limit": limit})
        return decode(Facts, (await self.transport.ask(ask)).body)

    async def facts(self, run_id: str, *, after: int | None = None) -> AsyncIterator[Fact]:
        """Every fact of a run that is there now, in order."""
        while True:
            page = await self.facts_page(run_id, after=after)
            for fact in page.facts:
                yield fact
            if not page.facts or page.next_after is None or page.next_after == after:
                return
            after = page.next_after

    async def follow(
        self,
        run_id: str,
        *,
        after: int | None = None,
        until_settled: bool = True,
        retry: Retry = FOLLOW,
        on_trouble: Trouble | None = None,
    ) -> AsyncIterator[Fact]:
        """Facts of a run as they happen, each once, across reconnects; ends at the settlement unless told otherwise.

        `on_trouble` is told, once each time, when nobody answers any more and it is tried again.
        """
        last_id = None if after is None else str(after)
        stream = AsyncEventStream(self.transport, run_path(run_id, "facts"), {}, last_id)
        stream.on_trouble = on_trouble
        async for frame in stream.frames(retry, endless=True):
            fact = decode(Fact, json_of(frame.data))
            yield fact
            if until_settled and settles(fact):
                return

    async def output(
        self, run_id: str, *, after: str | None = None, retry: Retry = FOLLOW, on_trouble: Trouble | None = None
    ) -> AsyncIterator[Chunk]:
        """The run's output, old and new, until it has settled; `after` is `<fence>.<seq>`, `on_trouble` as above."""
        stream = AsyncEventStream(self.transport, run_path(run_id, "output"), {}, after)
        stream.on_trouble = on_trouble
        while True:
            async for frame in stream.frames(retry, endless=False):
                if frame.name == "output":
                    yield decode(Chunk, json_of(frame.data))
            # An orderly end is the run's, or that of a service which stops: only the run's state tells which.
            reply = await self.transport.ask(Ask("GET", run_path(run_id)), retry)
            if decode(Run, reply.body).settled:
                break
            await pause(self.transport.clock.jitter(retry.first_s))
        # It may have settled since the stream ended, and have written more before.
        async for chunk in self.output_so_far(run_id, after=stream.last_id):
            yield chunk

    async def output_so_far(self, run_id: str, *, after: str | None = None) -> AsyncIterator[Chunk]:
        """The output that is there now, of all attempts, in order."""
        while True:
            page = decode(
                Output, (await self.transport.ask(Ask("GET", run_path(run_id, "output"), params={"after": after}))).body
            )
            for chunk in page.chunks:
                yield chunk
            if not page.chunks or page.next_after is None or page.next_after == after:
                return
            after = page.next_after

    async def why(self, run_id: str, *, at: At | None = None) -> Why:
        """Why the run is, or was at a position or an instant, in its state, with the facts that led there."""
        ask = Ask("GET", run_path(run_id, "why"), params={"at": place(at)})
        return decode(Why, (await self.transport.ask(ask)).body)

    async def effects(self, run_id: str) -> list[Effect]:
        """The run's effect ledger."""
        reply = await self.transport.ask(Ask("GET", run_path(run_id, "effects")))
        return decode_list(Effect, member(reply.body, "effects"))

    async def cancel(self, run_id: str, *, keep_workspaces: bool = False) -> Run:
        """Ask the holder to end; without a holder the run is cancelled at once."""
        return await self._run(run_id, "cancel", {"keep_workspaces": keep_workspaces})

    async def pause(self, run_id: str) -> Run:
        """Pause the run, once its holder has let go of it."""
        return await self._run(run_id, "pause", {})

    async def resume(self, run_id: str) -> Run:
        """Bring a paused run, or one that waits for a take-over, back."""
        return await self._run(run_id, "resume", {})

    async def answer(self, run_id: str, answer: Any) -> Run:
        """Answer the question that the run waits on."""
        return await self._run(run_id, "answer", {"answer": answer})

    async def verdict(self, run_id: str, verdict: str, result: Any = None) -> Run:
        """Judge a run that waits for its leader's verdict: `succeeded` or `failed`."""
        return await self._run(run_id, "verdict", {"verdict": verdict, "result": result})

    async def retry(self, run_id: str) -> Submitted:
        """The receipt of a new run with the same payload, linked to this one."""
        return decode(Submitted, (await self.transport.ask(Ask("POST", run_path(run_id, "retry"), {}))).body)


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
