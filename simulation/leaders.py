"""Leaders of the world: they submit, answer, pause, resume, cancel, judge and try again, at the best and worst moments.

They act with an operator's rights, so that one of them may also change limits and release a quarantined worker.
"""

from collections.abc import Callable, Collection
from typing import Any, Literal

import msgspec

from commands import effects, queues, steering, submitting, workers
from commands.desk import Caller, Desk
from commands.steering import Filter
from commands.submitting import Wish
from domain.run_facts import OPEN, TERMINAL, WorkerTimeout
from domain.steering import ANSWERABLE
from domain.submission import Policy, Submit
from domain.values import NULL, later, to_json
from projections.live.grounds import OBSERVERS_QUEUE
from simulation.actors import EFFECTS, QUEUES, Actor, Chooser, short
from simulation.attending import LEADERS
from simulation.clock import OwnClock
from simulation.messages import Message, Reply
from simulation.observers import WATCH
from simulation.workers import SPECIAL

AFTER_S = (-3.0, 0.0, 2.0, 6.0)
"""How far away the instant is that a run is to wait for, by the wall of whoever wants it."""
KEYS = (None, None, "k1", "k2")
POLICIES = (
    Policy(lease_ttl_s=5.0, retry_base_s=1.0),
    Policy(lease_ttl_s=5.0, max_attempts=1),
    Policy(lease_ttl_s=4.0, max_hold_s=6.0, retry_base_s=2.0),
    Policy(lease_ttl_s=8.0, max_attempts=2, verdict_by="leader", retry_base_s=0.0),
    Policy(lease_ttl_s=6.0, max_hold_s=6.0, max_attempts=1),
    Policy(lease_ttl_s=6.0, verdict_by="leader", retry_base_s=1.0),
    Policy(lease_ttl_s=5.0, on_leader_gone="keep", quiet_after_s=6.0, total_after_s=15.0),
    Policy(lease_ttl_s=9.0, on_leader_gone="park", quiet_after_s=4.0, on_quiet="fail_attempt", retry_base_s=1.0),
)
ON_LOSS: tuple[Literal["settle_lost", "retry_fresh", "park"], ...] = ("settle_lost", "retry_fresh", "park")


def _is_timeout(fact: object) -> bool:
    return isinstance(fact, WorkerTimeout) and fact.kind in ("inactivity", "total")


class Leader(Actor):
    """Somebody who wants runs and steers them, and now and then has an operator's rights."""

    def __init__(
        self, name: str, chooser: Chooser, told: Callable[[str], None], look: Callable[[str], str], clock: OwnClock
    ) -> None:
        super().__init__(Caller(principal=name, role="operator"), chooser)
        self.name = name
        self.runs: list[str] = []
        self._told = told
        self._look = look
        self.clock = clock
        self._keys = 0

    def submit(self) -> Message:
        """It wants a run, now and then under a key that it has used before."""
        wish = self._wish()
        return self.message(
            f"submits to {wish.command.queue}{f' under {wish.key}' if wish.key else ''}",
            lambda desk, caller: submitting.submit(desk, caller, wish),
            self.submitted,
        )

    def submit_many(self) -> Message:
        """It wants several runs in one go, and maybe one of them twice."""
        wishes = [self._wish() for _ in range(self.chooser.pick((2, 3)))]
        if wishes[0].key is not None and self.chooser.chance(50):
            wishes.append(wishes[0])

        def heard(reply: Reply) -> None:
            for run in (reply.answer or {}).get("runs", ()) if reply.refused is None else ():
                self._knows(run["run_id"])

        return self.message(
            f"submits {len(wishes)} at once", lambda desk, caller: submitting.submit_many(desk, caller, wishes), heard
        )

    def _wish(self) -> Wish:
        key = None
        if self.chooser.chance(30):
            self._keys += self.chooser.pick((0, 1))
            key = f"key-{self._keys}"
        leader_id = self.chooser.pick(LEADERS)
        command = Submit(
            queue=self.chooser.pick(QUEUES),
            leader_id=leader_id,
            payload=to_json({"work": 1}),
            labels=SPECIAL if self.chooser.chance(8) else {},
            priority=self.chooser.pick((0, 0, 5)),
            run_after=later(self.clock().wall, self.chooser.pick(AFTER_S)) if self.chooser.chance(10) else None,
            concurrency_key=self.chooser.pick(KEYS),
            policy=msgspec.structs.replace(self.chooser.pick(POLICIES), on_workspace_lost=self.chooser.pick(ON_LOSS)),
            body_digest=None if key is None else leader_id,
        )
        return Wish(command=command, key=key)

    def watch(self, scope: str) -> Message:
        """It wants somebody to watch a scope."""
        command = Submit(queue=OBSERVERS_QUEUE, concurrency_key=scope, policy=WATCH)
        return self.message(
            f"wants {scope} watched", lambda desk, caller: submitting.submit(desk, caller, Wish(command=command))
        )

    def retry(self) -> Message | None:
        """It wants a run once more."""
        return self._about("retries", submitting.retry, TERMINAL, self.submitted)

    def answer(self) -> Message | None:
        """It answers a question."""
        yes = to_json("yes")
        return self._about(
            "answers", lambda desk, caller, run_id: steering.answer(desk, caller, run_id, yes), ANSWERABLE
        )

    def resume(self) -> Message | None:
        """It ends a wait."""
        return self._about("resumes", steering.resume, ("paused", "waiting_takeover"))

    def pause(self) -> Message | None:
        """It wants a pause."""
        return self._about("pauses", steering.pause, ("queued", "reserved", "running"))

    def cancel(self) -> Message | None:
        """It has enough."""
        keep = self.chooser.chance(30)
        return self._about(
            f"cancels{' and keeps the ground of' if keep else ''}",
            lambda desk, caller, run_id: steering.cancel(desk, caller, run_id, keep_workspaces=keep),
            OPEN,
        )

    def cancel_some(self) -> Message:
        """It has enough of the oldest runs of a leader in a queue, or asks which those are."""
        wanted = Filter(queue=self.chooser.pick(QUEUES), leader_id=self.chooser.pick(LEADERS))
        dry_run = self.chooser.chance(30)
        return self.message(
            f"{'would cancel' if dry_run else 'cancels'} some of {wanted.leader_id} in {wanted.queue}",
            lambda desk, caller: steering.cancel_many(desk, caller, wanted, dry_run=dry_run, limit=2),
        )

    def judge(self) -> Message | None:
        """It gives its verdict."""
        said: Literal["succeeded", "failed"] = self.chooser.pick(("succeeded", "failed"))
        return self._about(
            f"judges {said}",
            lambda desk, caller, run_id: steering.verdict(desk, caller, run_id, said, NULL),
            ("waiting_verdict",),
        )

    def reconcile(self) -> Message | None:
        """It found out about an effect."""
        key, found = self.chooser.pick(EFFECTS), self.chooser.pick(("done", "not_done"))
        told: tuple[str, Any, Any] = (key, found, NULL)
        return self._about(
            f"found {key} {found} for",
            lambda desk, caller, run_id: effects.reconcile_effect(desk, caller, run_id, None, told),
            ("queued", "running", *TERMINAL),
        )

    def reassign(self) -> Message | None:
        """A run becomes another leader's."""
        leader_id, revision = self.chooser.pick(LEADERS), self.chooser.pick((1, 1, 2))
        return self._about(
            f"gives to {leader_id}",
            lambda desk, caller, run_id: steering.reassign_run(desk, caller, run_id, leader_id, revision),
            OPEN,
        )

    def acknowledge(self) -> Message | None:
        """It answers the last timeout of a run, if there was one."""
        said: Literal["extend", "abort"] = self.chooser.pick(("extend", "extend", "abort"))

        async def send(desk: Desk, caller: Caller, run_id: str) -> Any:
            told = [each for each in desk.journal.store.facts_of(run_id, 0, 10_000) if _is_timeout(each.fact)]
            fact_id = told[-1].meta.fact_id if told else "none"
            return await steering.acknowledge_timeout(desk, caller, run_id, fact_id, said)

        return self._about(f"says {said} to", send, OPEN)

    def limit(self) -> Message:
        """It changes the limits of a queue."""
        queue, most = self.chooser.pick(QUEUES), self.chooser.pick((None, None, None, 2, 1, 0))
        per_key = self.chooser.pick((1, 1, 2))
        return self.message(
            f"limits {queue} to {most}, {per_key} a key",
            lambda desk, caller: queues.configure_queue(desk, caller, queue, most, per_key),
        )

    def quarantine(self, worker_id: str) -> Message:
        """It puts a worker aside."""
        return self.message(
            f"quarantines {worker_id}",
            lambda desk, caller: workers.quarantine_worker(desk, caller, worker_id, "it looks ill"),
        )

    def release(self, worker_id: str) -> Message:
        """It lets a quarantined worker go."""
        return self.message(
            f"releases {worker_id}", lambda desk, caller: workers.release_worker(desk, caller, worker_id)
        )

    def _about(
        self,
        text: str,
        send: Callable[[Desk, Caller, str], Any],
        meant: Collection[str],
        heard: Callable[[Reply], None] = lambda reply: None,
    ) -> Message | None:
        """A message about a run: mostly one that is in a state in which it makes sense, else any."""
        fit = [run_id for run_id in self.runs if self._look(run_id) in meant]
        known = fit if fit and self.chooser.chance(85) else self.runs
        if not known:
            return None
        run_id = self.chooser.pick(known)
        return self.message(f"{text} {short(run_id)}", lambda desk, caller: send(desk, caller, run_id), heard)

    def submitted(self, reply: Reply) -> None:
        """It hears the id of a run that it wanted."""
        if reply.refused is None and reply.answer:
            self._knows(reply.answer["run_id"])

    def _knows(self, run_id: str) -> None:
        if run_id not in self.runs:
            self.runs.append(run_id)
            self._told(run_id)
