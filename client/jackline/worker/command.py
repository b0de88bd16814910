"""Executing a run with a command: one attempt, from its files to the last word about it.

The command runs under a keeper (see there) in a session of its own, in the directory that its run stands on (see
`grounds`), with a scrubbed environment. Three things go on at once until it has ended:

- its output is delivered in order, chunk by chunk, each until it is heard; what the service cannot take now stays in
  the spool on disk;
- the keeper's `trust` is moved whenever the lease is renewed, and left to run down when it is not;
- instructions and losses become an order to end: SIGTERM, grace, SIGKILL.

When it has ended, the rest of the output is delivered, then the ending (`endings`), which is written down first
(`ending.json`), so that a worker that dies now says the same thing under the same idempotency key when it is back. Only
then does `run` return and free the slot. When the lease is lost, nothing is delivered any more, except the one report.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jackline.decode import decode
from jackline.errors import FenceLost, Garbled
from jackline.models import Claim, Instruction, LeaseRef
from jackline.worker import keeper
from jackline.worker.endings import Circumstances, Ending, Exit, ending, no_command
from jackline.worker.environment import MARK, environment
from jackline.worker.grounds import Ground, GroundLost
from jackline.worker.held import HeldLease, Loss
from jackline.worker.persist import Heard, until_heard
from jackline.worker.places import Attempt
from jackline.worker.processes import Identity, end_marked
from jackline.worker.results import is_kept, read_result
from jackline.worker.spool import Spool
from jackline.worker.starting import NotBegun, never_began, start_keeper, withhold
from jackline.worker.telling import Shop, tell

LOOK_S = 0.05  # between two looks at the keeper, and at a spool that is being written
IDLE_LOOK_S = 0.25  # between two looks at a spool to which nothing is added
PARK_GRACE_S = 2.0  # how long a loss waits for the command line inside the run to say that it was a parking
INSTRUCTED = {"cancel": "cancel", "stop": "cancel", "pause": "pause", "slice_ended": "slice"}


class CommandExecution:
    """One attempt of one run."""

    def __init__(self, shop: Shop, lease: HeldLease, attempt: Attempt, claim: Claim | None) -> None:
        self._shop = shop
        self._lease = lease
        self._attempt = attempt
        self._claim = claim
        self._spool = Spool(attempt)
        self._asked: str | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._keeper: Identity | None = None
        self._last: Ending | None = None
        self._loss_obeyed = False
        self._ended = asyncio.Event()

    @classmethod
    def begin(cls, shop: Shop, claim: Claim, lease: HeldLease) -> "CommandExecution":
        """An execution of what was just claimed."""
        return cls(shop, lease, shop.home.attempt(lease.ref), claim)

    @classmethod
    def found(cls, shop: Shop, lease: HeldLease, attempt: Attempt, last: Ending | None) -> "CommandExecution":
        """An execution that an earlier life of this worker began, with its last word if that was already decided."""
        execution = cls(shop, lease, attempt, None)
        execution._last = last
        return execution

    @property
    def run_id(self) -> str:
        """Which run."""
        return self._lease.ref.run_id

    def stop(self, reason: str) -> None:
        """Order the command to end; `now` shortens the grace to nothing."""
        self._asked = self._asked or reason
        self._order_to_end(0.0 if reason == "now" else self._shop.grace_s)

    async def run(self) -> None:
        """Start or rejoin the command, see it through, and tell how it ended."""
        argv = None if self._claim is None else _command_of(self._claim, self._shop.command)
        try:
            ground = await self._stand() if argv is not None else None
        except Exception:
            self._attempt.remove()
            raise
        if self._claim is not None and (argv is None or ground is None):
            await self._tell(Ending("hand-back") if argv else no_command())
            return
        try:
            if self._claim is not None and argv is not None and ground is not None:
                self._start(self._claim, argv, ground)
            else:
                withhold(self._attempt)
                self._keeper = Identity.of(self._attempt.load("keeper.json"))
                self._sign()
            async with asyncio.TaskGroup() as both:
                both.create_task(self._watch())
                both.create_task(self._deliver())
            self._refuse_if_never_begun()
        except Exception:
            await self._abandon()
            raise
        await self._tell(self._last or await self._judged())

    def _refuse_if_never_begun(self) -> None:
        """Raise when the command was certainly not started: the engine hands the run back, and nothing is counted."""
        told = self._last is not None or self._asked is not None or self._lease.loss is not None
        if not told and (why := never_began(self._attempt)) is not None:
            raise NotBegun(why)

    async def _abandon(self) -> None:
        """Something of ours broke: the command must not go on without anybody to look after it."""
        self._ended.clear()
        self._order_to_end(self._shop.grace_s)
        while self._keeper_lives():
            await asyncio.sleep(LOOK_S)
        self._attempt.remove()

    async def _stand(self) -> Ground | None:
        """Where the command is to start; None when it is not to start at all."""
        standing = asyncio.create_task(self._shop.grounds.stand(self._lease.ref))
        while not standing.done() and self._asked is None and self._lease.loss is None:
            await asyncio.wait([standing], timeout=LOOK_S)
        if self._asked is not None or self._lease.loss is not None:
            standing.cancel()
            await asyncio.gather(standing, return_exceptions=True)
            return None
        try:
            return standing.result()
        except (GroundLost, FenceLost) as error:
            self._shop.log("not_started", run_id=self.run_id, fence=self._lease.ref.fence, error=str(error))
            return None

    def _start(self, claim: Claim, argv: list[str], ground: Ground) -> None:
        shop, attempt = self._shop, self._attempt
        address, command_line = shop.client.transport.address, shop.home.command_line()
        variables = environment(shop.outer, claim, attempt, address=address, command_line=command_line)
        _write_private(attempt / "key", (address.key or "") if shop.run_key is None else shop.run_key)
        attempt.save("attempt.json", {"run_id": claim.run_id, "fence": claim.fence, "ttl_s": claim.lease_ttl_s})
        attempt.save("partial.json", claim.partial)
        attempt.save("payload.json", claim.payload)
        answers = [{"question": one.question, "answer": one.answer} for one in claim.answers]
        attempt.save("answers.json", answers)
        attempt.save("answer.json", answers[-1]["answer"] if answers else None)
        variables["JACKLINE_WORKSPACE_ID"] = ground.workspace_id
        cwd = ground.path / _cwd_of(claim)
        spec = {"command": argv, "cwd": str(cwd), "env": variables, "grace_s": shop.grace_s}
        attempt.save("spec.json", spec)
        self._write_trust()
        self._sign()
        shop.log("run_started", run_id=claim.run_id, fence=claim.fence, attempt=claim.attempt, command=argv)
        self._child = start_keeper(shop.home, attempt)
        self._keeper = Identity(self._child.pid, keeper.start_of(self._child.pid))

    def _sign(self) -> None:
        """Say who executes this attempt, and for how long its command may be without us."""
        me = Identity.mine()
        document = {"pid": me.pid, "started": me.started, "come_back_s": self._shop.come_back_s}
        self._attempt.save("worker.json", document)

    async def _watch(self) -> None:
        """Until the keeper is gone: move its trust, obey instructions, answer the mailbox."""
        trusted = None
        while self._keeper_lives():
            if self._lease.trust is not trusted:
                trusted = self._lease.trust
                self._write_trust()
            for instruction in self._lease.take_instructions():
                self._obey(instruction)
            if self._lease.loss is not None and not self._loss_obeyed:
                self._loss_obeyed = True
                await self._obey_loss(self._lease.loss)
            await asyncio.sleep(LOOK_S)
        if self._lease.loss is not None and not self._loss_obeyed:
            await self._obey_loss(self._lease.loss)
        if never_began(self._attempt) is None:
            await self._note_the_end()
        self._ended.set()

    async def _note_the_end(self) -> None:
        if not (self._attempt / "exit.json").exists():
            # The keeper was killed. The kernel ended the command with it, but not what the command had started.
            ended = await asyncio.to_thread(end_marked, MARK, str(self._attempt.path))
            self._shop.log("keeper_lost", run_id=self.run_id, fence=self._lease.ref.fence, processes_ended=ended)
        exit_ = Exit.of(self._attempt.load("exit.json"))
        told = {"exit_code": exit_.exit_code, "signal": exit_.signal, "stop": exit_.stop, "killed": exit_.killed}
        self._shop.log("command_ended", run_id=self.run_id, fence=self._lease.ref.fence, **told)

    def _keeper_lives(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self._keeper is not None and self._keeper.alive

    def _write_trust(self) -> None:
        trust = self._lease.trust
        if trust is None:
            return
        line = f"{trust.trusted_until:.6f} {trust.lead_s(self._shop.grace_s):.6f}\n"
        draft = self._attempt / ".trust"
        # When this fails (a full disk) the keeper sees no renewal and ends the command: the safe direction.
        with contextlib.suppress(OSError):
            draft.write_text(line, encoding="ascii")
            draft.replace(self._attempt / "trust")

    def _obey(self, instruction: Instruction) -> None:
        reason = INSTRUCTED.get(instruction.kind)
        self._shop.log("instructed", run_id=self.run_id, kind=instruction.kind, reason=instruction.reason)
        if reason is not None and self._lease.loss is None:
            self.stop(reason)

    async def _obey_loss(self, loss: Loss) -> None:
        if await self._was_a_parking():
            return
        self._asked = self._asked or loss.kind
        self._shop.log(
            "claim_lost" if loss.kind == "lost" else "lease_distrusted",
            run_id=self.run_id,
            presented=self._lease.ref.fence,
            current=loss.current,
            holder=loss.holder,
            reason=loss.reason,
        )
        self._order_to_end(self._grace_after(loss))

    def _grace_after(self, loss: Loss) -> float:
        """How long the command may take to end after a loss."""
        trust = self._lease.trust
        if loss.kind == "distrust" and trust is not None:
            return max(0.0, trust.trusted_until - self._shop.client.transport.clock.now())
        return self._shop.grace_s if loss.stop_within_s is None else min(self._shop.grace_s, loss.stop_within_s)

    async def _was_a_parking(self) -> bool:
        """Whether the lease ended because the command parked its run; then it is given its grace to exit by itself."""
        waited_s = 0.0
        while (self._attempt / "parking.json").exists() and waited_s < PARK_GRACE_S:
            if self._parked() is not None:
                self._asked = "parked"
                self._shop.log("parked", run_id=self.run_id, fence=self._lease.ref.fence)
                asyncio.get_running_loop().call_later(self._shop.grace_s, self._order_to_end, self._shop.grace_s)
                return True
            await asyncio.sleep(LOOK_S)
            waited_s += LOOK_S
        return False

    def _parked(self) -> Any:
        return self._attempt.load("parked.json")

    def _order_to_end(self, grace_s: float) -> None:
        if self._keeper is None or self._ended.is_set():
            return
        with contextlib.suppress(OSError):
            (self._attempt / "grace").write_text(f"{grace_s:.6f}", encoding="ascii")
        self._keeper.signal(signal.SIGTERM)

    async def _deliver(self) -> None:
        """Deliver output until the command has ended and nothing is left, or the lease is lost."""
        pause_s = LOOK_S
        while self._lease.loss is None or self._lease.loss.kind == "distrust":
            final = self._ended.is_set()
            flush = self._asked_to_flush()
            delivered = await self._deliver_one(final=final)
            if delivered is None:
                return
            pause_s = LOOK_S if delivered else min(IDLE_LOOK_S, pause_s * 1.25)
            if not delivered:
                self._flushed(flush)
                if final:
                    return
                await self._rest(pause_s)
        await self._ended.wait()

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _deliver_one(self, *, final: bool) -> bool | None:
        """True: one chunk went out. False: there is none. None: the lease is lost."""
        found = self._spool.next_piece(final=final)
        if found is None:
            return False
        piece, text = found
        client, ref = self._shop.client, self._lease.ref
        heard = await self._heard("output", lambda: client.send_output(ref, piece.seq, text, stream=piece.stream))
        if heard is Heard.FENCE_LOST:
            return None
        self._spool.delivered(piece)
        return True

    def _asked_to_flush(self) -> str | None:
        with contextlib.suppress(OSError):
            return (self._attempt / "flush").read_text(encoding="ascii")
        return None

    def _flushed(self, asked: str | None) -> None:
        """Tell the command line inside the run that everything written before it asked has been delivered."""
        if asked is not None:
            with contextlib.suppress(OSError):
                (self._attempt / "flushed").write_text(asked, encoding="ascii")
                (self._attempt / "flush").unlink()

    def _ending(self) -> Ending:
        loss = self._lease.loss
        parked = self._parked()
        written = (self._attempt / "result.json").exists()
        result = read_result(self._attempt / "result.json")
        if is_kept(result):
            self._shop.log("result_not_json", run_id=self.run_id, problem=result["message"])
        around = Circumstances(
            asked=None if self._asked in ("lost", "parked") else self._asked,
            lost=loss is not None and loss.kind == "lost" and parked is None,
            parked=parked,
            result=result,
            result_written=written,
        )
        return ending(Exit.of(self._attempt.load("exit.json")), around)

    async def _judged(self) -> Ending:
        """How the command ended; one that failed may have lost its ground, and that is told first and decides."""
        last = self._ending()
        if last.verb != "close" or last.body.get("outcome") != "failed" or await self._shop.grounds.stands(self.run_id):
            return last
        never_began = Exit.of(self._attempt.load("exit.json")).not_started is not None
        return Ending("hand-back") if never_began else last

    async def _tell(self, last: Ending) -> None:
        """Say the last word, and forget the attempt once it was heard."""
        with contextlib.suppress(OSError):
            self._attempt.save("ending.json", {"verb": last.verb, "body": last.body})
        if await tell(self._shop, self._lease, last):
            self._attempt.remove()
            if self._asked is not None or self._lease.loss is not None:
                self._shop.grounds.sweep()

    async def _heard(self, what: str, say: Any) -> Heard:
        return await until_heard(what, say, self._lease, self._shop.client.transport.clock, self._shop.log)


@dataclass(frozen=True, slots=True)
class Begun:
    """What is written down of an attempt when its command is started."""

    run_id: str
    fence: int
    ttl_s: float


def _command_of(claim: Claim, given: tuple[str, ...]) -> list[str] | None:
    if given:
        return list(given)
    command = claim.payload.get("command") if isinstance(claim.payload, dict) else None
    if isinstance(command, list) and command and all(isinstance(word, str) and "\0" not in word for word in command):
        return command
    return None


def _cwd_of(claim: Claim) -> str:
    cwd = claim.payload.get("cwd") if isinstance(claim.payload, dict) else None
    return cwd if isinstance(cwd, str) and "\0" not in cwd else "."


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def ref_of(attempt: Attempt) -> tuple[LeaseRef, float] | None:
    """Whose attempt it is, and under which ttl; None when it was cut off before anything was started."""
    try:
        saved = decode(Begun, attempt.load("attempt.json"))
    except Garbled:
        return None
    return LeaseRef(saved.run_id, saved.fence), saved.ttl_s
