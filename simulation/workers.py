"""Workers of the world: they claim, act, report and fail, and some of them are zombies.

A worker believes that it holds what it was granted until it is told otherwise. One whose process was frozen, or whose
lease was taken over meanwhile, goes on writing under its old fence, and now and then it presents a fence that nobody
was ever granted. None of that may ever be acknowledged.
"""

from collections.abc import Callable
from typing import Any, Literal

from commands import claims, effects, ending, holding, workers
from commands.claims import Ask
from commands.desk import Caller, Desk
from commands.ending import CloseOf
from commands.holding import Chunk, Lessee, Progress
from domain.closing import Close
from domain.handing import Park
from domain.run_facts import ParkKind
from domain.values import NULL, Json, to_json
from simulation.actors import EFFECTS, QUEUES, Actor, Chooser, named, short
from simulation.clock import OwnClock
from simulation.messages import Message, Reply
from simulation.reaching import FAST_GAVE_UP, SLOW_LOST
from simulation.renewing import Renewals
from simulation.truth import Truth

ERRORS = (
    NULL, NULL, NULL, to_json("it broke"), to_json("ssh_timeout: no route"), to_json({"code": "workspace_hook_failed"}),
    to_json("it broke"), to_json("exit_unknown"),
)  # fmt: skip
"""What a failed close may say; two of them blame the worker, and one knows nothing."""
SPECIAL, SPECIALIST = {"gpu": "yes"}, "cyd"
"""Labels that some runs ask for, and who has them."""


class Worker(Actor):
    """A worker process: claims, acts, reports; ``held`` is what it believes, ``past`` what it ever held."""

    def __init__(self, name: str, slots: int, chooser: Chooser, truth: Truth) -> None:
        self.clock = OwnClock(name, truth.time)
        self.renewals = Renewals(self.clock)
        super().__init__(Caller(principal=name, role="worker", workers=frozenset({name})), chooser)
        self.name = name
        self.slots = slots
        self.held: dict[str, int] = {}
        self.past: list[tuple[str, int]] = []
        self.tokens: list[str] = []
        self.runs: list[str] = []
        """Run ids that it has heard of: what it may claim by id."""
        self.frozen = False
        """Stopped in the middle: it is not heard, and goes on later as if nothing had happened."""
        self.estranged = False
        """It was told that it is not known, or takes no more: it registers before anything else."""
        self.truth = truth
        self._over: set[tuple[str, int]] = set()
        self._begun: set[tuple[str, int, str]] = set()
        self._stopped: list[tuple[str, int]] = []
        self._seq = 0

    def register(self) -> Message:
        """It says what it has."""
        slots = self.chooser.pick((self.slots, self.slots, 1))
        labels = SPECIAL if self.name == SPECIALIST else {}
        self.estranged = False
        return self.message(
            f"registers with {slots} slots",
            lambda desk, caller: workers.register_worker(desk, caller, self.name, workers.Ability(labels, slots)),
        )

    def claim(self) -> Message:
        """It asks for what is due."""
        most, queues_ = self.chooser.pick((1, 2, 3)), self.chooser.pick((QUEUES, QUEUES[:1], QUEUES[1:]))
        ask, text = Ask(worker_id=self.name, queues=queues_, most=most), f"claims {most} of {'+'.join(queues_)}"
        return self.message(text, lambda desk, caller: claims.claim(desk, caller, ask), self.granted())

    def claim_by_id(self) -> Message | None:
        """It wants one run."""
        if not self.runs:
            return None
        return self.claim_of(self.chooser.pick(self.runs))

    def claim_of(self, run_id: str) -> Message:
        """It wants this run."""
        return self.message(
            f"claims {short(run_id)}",
            lambda desk, caller: claims.claim_run(desk, caller, run_id, self.name),
            self.granted(),
        )

    def reserve(self) -> Message:
        """It asks for a run ahead of being ready."""
        ask = Ask(worker_id=self.name, queues=QUEUES, most=1)
        return self.message("reserves", lambda desk, caller: claims.reserve(desk, caller, ask), self._reserved)

    def bind(self) -> Message | None:
        """It is ready, or says so again."""
        if not self.tokens:
            return None
        token = self.chooser.pick(self.tokens)
        return self.message(
            f"binds {short(token)}", lambda desk, caller: claims.bind_token(desk, caller, token), self.granted()
        )

    def give_reservation_back(self) -> Message | None:
        """It will not be ready."""
        if not self.tokens:
            return None
        token = self.chooser.pick(self.tokens)
        return self.message(f"gives {short(token)} back", lambda desk, caller: claims.cancel_token(desk, caller, token))

    def heartbeat(self) -> Message:
        """It is alive, and so are the runs that it believes it holds."""
        leases = [Lessee(run_id, fence) for run_id, fence in self.held.items()]
        return self.message(
            f"is heard with {len(leases)} leases",
            lambda desk, caller: holding.heartbeat(desk, caller, self.name, leases),
            self._renewed(self.renewals.beats()),
        )

    def save(self) -> Message | None:
        """It saves a partial, writes output, or says that it is at work."""
        lease = self.lease()
        if lease is None:
            return None
        run_id, fence = lease
        self._seq += 1
        seq, what = self._seq, self.chooser.pick(("partial", "output", "progress"))

        async def send(desk: Desk, caller: Caller) -> None:
            if what == "partial":
                await holding.save_partial(desk, caller, run_id, fence, to_json({"by": self.name, "n": seq}))
            elif what == "output":
                await holding.write_output(
                    desk, caller, run_id, fence, Chunk(seq=seq, stream="stdout", data=f"{seq}\n")
                )
            else:
                await holding.progress(desk, caller, run_id, fence, Progress(message="at work"))

        return self.message(f"{what} of {named(run_id, fence)}", send, right=(run_id, fence, self.name))

    def effect(self) -> Message | None:
        """It begins, completes or fails a side effect."""
        lease = self.lease()
        if lease is None:
            return None
        run_id, fence = lease
        key = self.chooser.pick(EFFECTS)
        begun = (run_id, fence, key) in self._begun
        what = self.chooser.pick(
            ("completes", "completes", "fails", "begins") if begun else ("begins", "begins", "fails")
        )
        return self.effect_of(run_id, fence, (what, key, to_json(self.chooser.pick((1, 1, 1, 2)))))

    def effect_of(self, run_id: str, fence: int, told: tuple[str, str, Json]) -> Message:
        """It begins, completes or fails this effect, with this intent or outcome."""
        what, key, payload = told

        async def send(desk: Desk, caller: Caller) -> Any:
            if what == "begins":
                return await effects.claim_effect(desk, caller, run_id, fence, (key, payload))
            state: Literal["completed", "failed"] = "completed" if what == "completes" else "failed"
            return await effects.finish_effect(desk, caller, run_id, fence, (key, state, payload))

        def heard(reply: Reply) -> None:
            if reply.answer and reply.answer.get("answer") == "claimed":
                self._begun.add((run_id, fence, key))

        return self.message(f"{what} {key} of {named(run_id, fence)}", send, heard, (run_id, fence, self.name))

    def park(self) -> Message | None:
        """It waits for somebody."""
        lease = self.lease()
        return None if lease is None else self.park_of(*lease, kept=self.chooser.chance(40))

    def park_of(self, run_id: str, fence: int, *, kept: bool) -> Message:
        """It waits for somebody with this run, and keeps its lease or not."""
        kinds: tuple[ParkKind, ...] = ("waiting_input", "waiting_peer", "waiting_takeover", "paused")
        command = Park(kind=self.chooser.pick(kinds), question=to_json("which?"), keep_lease=kept)
        if not command.keep_lease:
            self.stop_work(run_id, fence)

        def heard(reply: Reply) -> None:
            if reply.refused is None and not command.keep_lease:
                self._drop(run_id, fence)

        return self.message(
            f"parks {named(run_id, fence)} {command.kind}{' kept' if command.keep_lease else ''}",
            lambda desk, caller: ending.park(desk, caller, run_id, fence, command),
            heard,
            (run_id, fence, self.name),
        )

    def hand_back(self) -> Message | None:
        """It gives a run back unfinished."""
        lease = self.lease()
        if lease is None:
            return None
        run_id, fence = lease
        self.stop_work(run_id, fence)
        return self.message(
            f"hands {named(run_id, fence)} back",
            lambda desk, caller: ending.hand_back(desk, caller, run_id, fence),
            self._ends(run_id, fence),
            (run_id, fence, self.name),
        )

    def close(self) -> Message | None:
        """It says how an attempt ended."""
        lease = self.lease()
        if lease is None:
            return None
        return self.close_of(*lease)

    def close_of(self, run_id: str, fence: int) -> Message:
        """It says how this attempt ended."""
        closing = self._closing(run_id, fence)
        self.stop_work(run_id, fence)
        return self.message(
            f"closes {named(run_id, fence)} {closing.close.outcome}",
            lambda desk, caller: ending.close(desk, caller, closing),
            self._ends(run_id, fence),
            (run_id, fence, self.name),
        )

    def finish(self, run_id: str, fence: int) -> Message:
        """It has done what was to be done."""
        self.stop_work(run_id, fence)
        closing = CloseOf(run_id=run_id, fence=fence, close=Close(outcome="succeeded", result=to_json("done")))
        return self.message(
            f"finishes {named(run_id, fence)}",
            lambda desk, caller: ending.close(desk, caller, closing),
            self._ends(run_id, fence),
            (run_id, fence, self.name),
        )

    def ask(self) -> Message:
        """It asks for whatever there is to do."""
        return self.claim()

    def close_all(self) -> Message | None:
        """It closes all that it believes it holds, in one go."""
        closings = [self._closing(run_id, fence) for run_id, fence in self.held.items()]
        if not closings:
            return None
        for each in closings:
            self.stop_work(each.run_id, each.fence or 0)
        return self.message(
            f"closes {len(closings)} at once", lambda desk, caller: ending.close_many(desk, caller, closings)
        )

    def report_stop(self) -> Message | None:
        """It was stopped, and says whether it saved."""
        known = self._stopped if self._stopped and self.chooser.chance(80) else self.past
        if not known:
            return None
        run_id, fence = self.chooser.pick(known)
        report: Literal["saved", "ignored"] = self.chooser.pick(("saved", "ignored"))
        return self.message(
            f"reports {named(run_id, fence)} {report}",
            lambda desk, caller: ending.stop_report(desk, caller, run_id, fence, report),
        )

    def drain(self) -> Message:
        """It wants no more runs."""
        return self.message("drains", lambda desk, caller: workers.drain_worker(desk, caller, self.name))

    def leave(self) -> Message:
        """It signs off."""
        return self.message("leaves", lambda desk, caller: workers.leave_worker(desk, caller, self.name))

    def detach(self) -> Message:
        """Its last stream is closed by its side."""
        return self.message("is detached", lambda desk, caller: workers.detached(desk, caller, self.name))

    def stop_work(self, run_id: str, fence: int) -> None:
        """It has what it started come to an end, before it says anything that gives the run up."""
        self._over.add((run_id, fence))
        self.truth.working.discard((run_id, fence))

    def _closing(self, run_id: str, fence: int) -> CloseOf:
        outcome: Literal["succeeded", "failed"] = self.chooser.pick(("succeeded", "failed"))
        result = to_json({"by": self.name, "fence": fence}) if self.chooser.chance(50) else NULL
        error = self.chooser.pick(ERRORS) if outcome == "failed" else NULL
        close = Close(outcome=outcome, result=result, error=error, retryable=not self.chooser.chance(20))
        return CloseOf(run_id=run_id, fence=fence, close=close)

    def lease(self) -> tuple[str, int] | None:
        """A lease to act under: one that it believes in, an old one of its own, or one that nobody was granted."""
        known = list(self.held.items())
        if self.past and (not known or self.chooser.chance(15)):
            return self.chooser.pick(self.past)
        if not known:
            return None
        run_id, fence = self.chooser.pick(known)
        return (run_id, fence + 1) if self.chooser.chance(3) else (run_id, fence)

    def mistrust(self) -> None:
        """It stops whatever it holds, as far as it knows, no more: by its own clock, and unasked."""
        for (run_id, fence), ttl_s in self.renewals.over():
            heard_s = self.truth.heard.get((run_id, fence))
            still = heard_s is not None and self.truth.served_s() - heard_s < ttl_s
            if still and self.clock.rate > 1 and self.held.get(run_id) == fence:
                self.truth.note(FAST_GAVE_UP)
            self._drop(run_id, fence)

    def granted(self) -> Callable[[Reply], None]:
        """How it hears of what it asks for now."""
        asked_at = self.renewals.asked()

        def heard(reply: Reply) -> None:
            self.estranged = self.estranged or reply.refused in ("worker_unknown", "worker_draining")
            if reply.refused is None and reply.answer:
                for claim in reply.answer.get("claims", [reply.answer]):
                    self._took(claim["run_id"], claim["fence"])
                    self.renewals.confirmed((claim["run_id"], claim["fence"]), asked_at, claim["lease_ttl_s"])

        return heard

    def _took(self, run_id: str, fence: int) -> None:
        self.held[run_id] = fence
        if (run_id, fence) not in self._over:
            self.truth.working.add((run_id, fence))
        self.past = [*self.past, (run_id, fence)][-12:]

    def _reserved(self, reply: Reply) -> None:
        if reply.refused is None and reply.answer:
            self.tokens = [*self.tokens, *(claim["token"] for claim in reply.answer["claims"])][-4:]

    def _renewed(self, asked_at: float) -> Callable[[Reply], None]:
        def heard(reply: Reply) -> None:
            self.estranged = self.estranged or reply.refused == "worker_unknown"
            for answer in reply.answer or ():
                lease = (answer["run_id"], answer["fence"])
                if answer["outcome"] == "lost":
                    self._lost(lease, answer["reason"])
                elif answer["outcome"] == "renewed":
                    self.truth.heard[lease] = self.truth.served_s()
                    self.renewals.confirmed(lease, asked_at, answer["ttl_s"])

        return heard

    def _lost(self, lease: tuple[str, int], reason: str) -> None:
        if reason == "lease_expired" and self.clock.rate < 1 and self.renewals.trusts(lease):
            self.truth.note(SLOW_LOST)
        self._stopped = [*self._stopped, lease][-6:]
        self._drop(*lease)

    def _ends(self, run_id: str, fence: int) -> Callable[[Reply], None]:
        return lambda reply: self._drop(run_id, fence) if reply.refused in (None, "fence_lost") else None

    def _drop(self, run_id: str, fence: int) -> None:
        self.stop_work(run_id, fence)
        self.renewals.forget((run_id, fence))
        if self.held.get(run_id) == fence:
            del self.held[run_id]
