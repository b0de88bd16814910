"""What may be done to a run in the tests of the projections: the domain's own decisions, by name.

An act decides on a standing as the service would, with the domain's deciders, and may be refused. ``Story`` tells one
run in memory, as recorded facts; ``journaled`` records the same acts in a real journal.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from domain import claiming, closing, effects, handing, observing, placing, releasing, settling, steering, turns
from domain.decider import Draft
from domain.lease import FenceBumped, Held, LeaseBound, LeaseMark, Reserved
from domain.refusal import Refusal
from domain.run_facts import Work
from domain.standing import Presented, Remains, RunDraft, Standing, effects_stream, lease_stream
from domain.submission import Policy, Submit
from domain.values import Fact, Moment, to_json
from domain.workspace import Workspace, workspace_stream
from domain.workspace_facts import LastSeen
from journal.mapper import Meta, Recorded
from journal.topics import FOLDS, prefix_of, topic_of

NOON = Moment(datetime(2026, 1, 1, 12, tzinfo=UTC), 1_000.0)
TENANT = "default"
PARTIAL = Remains(work=Work(partials=1), partial=to_json({"done": 3}), partial_fence=1)

Act = Callable[[Standing, Moment], Draft]


def submit(**wish: Any) -> Act:
    """Somebody wants the run."""

    def decide(standing: Standing, now: Moment) -> Draft:
        draft = standing.draft()
        if standing.run.version == 0:
            draft.on_run(steering.submit(standing.run_id, TENANT, Submit(**wish), now))
        return draft

    return decide


def claim(worker: str, *, by_id: bool = False, token: str | None = None) -> Act:
    """A worker is granted the run, or reserves it."""
    grant = claiming.Grant(worker=worker, cause="id" if by_id else "queue", token=token)
    return lambda standing, now: claiming.claim(standing, grant, Work(), now)


def bind(standing: Standing, now: Moment) -> Draft:
    """The reserving worker is ready."""
    return claiming.bind(standing, _token(standing), now)


def unreserve(standing: Standing, now: Moment) -> Draft:
    """The reservation is given back."""
    return claiming.cancel_reservation(standing, _token(standing), "not_ready")


def lapse(standing: Standing, now: Moment) -> Draft:
    """The reservation was not bound in time."""
    return claiming.lapse(standing, _token(standing))


def park(kind: str, *, keep_lease: bool = False) -> Act:
    """The holder waits for somebody."""
    command = handing.Park(kind=kind, question=to_json("go on?"), keep_lease=keep_lease)  # type: ignore[arg-type]
    return lambda standing, now: handing.park(standing, _holder(standing), command, PARTIAL, now)


def hand_back(standing: Standing, now: Moment) -> Draft:
    """The holder gives the run back."""
    return handing.hand_back(standing, _holder(standing), PARTIAL, now)


def close(outcome: str, *, retryable: bool = True, result: Any = None, error: Any = None) -> Act:
    """The holder closes its attempt."""
    command = closing.Close(
        outcome=outcome,  # type: ignore[arg-type]
        retryable=retryable,
        result=to_json(result),
        error=to_json(error),
    )
    return lambda standing, now: closing.close(standing, _holder(standing), command, PARTIAL, now)


def expire(standing: Standing, now: Moment) -> Draft:
    """The lease is over, if its deadline has passed."""
    return handing.expire(standing, PARTIAL, now)


def end_slice(standing: Standing, now: Moment) -> Draft:
    """The slice is over."""
    return handing.end_slice(standing)


def answer(standing: Standing, now: Moment) -> Draft:
    """The question is answered."""
    return steering.answer(standing, to_json("yes"), "ada", PARTIAL, now)


def resume(standing: Standing, now: Moment) -> Draft:
    """The wait is over."""
    return steering.resume(standing, "ada", PARTIAL, now)


def pause(standing: Standing, now: Moment) -> Draft:
    """The leader wants a pause."""
    return steering.pause(standing, "ada", now)


def cancel(standing: Standing, now: Moment) -> Draft:
    """A principal wants the run cancelled."""
    return settling.cancel(standing, settling.Cancel(by="ada"), PARTIAL, now)


def cancel_due(standing: Standing, now: Moment) -> Draft:
    """The grace of a cancel has passed."""
    return settling.cancel_due(standing, PARTIAL, now)


def judge(verdict: str) -> Act:
    """The leader judges."""
    command = settling.Verdict(verdict=verdict, by="ada")  # type: ignore[arg-type]
    return lambda standing, now: settling.verdict(standing, command, PARTIAL, now)


def report_stop(standing: Standing, now: Moment) -> Draft:
    """A worker whose lease was taken tells whether it saved."""
    last = standing.lease.last
    return settling.report_stop(standing, Presented(fence=last.fence if last else 0), "saved")


def begin_effect(standing: Standing, now: Moment) -> Draft:
    """The holder is about to do something outside."""
    held, draft = standing.lease, standing.draft()
    if isinstance(held, Held) and "mail" not in standing.effects.effects:
        draft.on_effects(
            effects.EffectIntended(
                key="mail", payload_digest="00", fence=held.fence, command_id=None, intended_at=now.wall
            )
        )
    return draft


def ground_of(run_id: str) -> str:
    """The id of the workspace that the acts give a run."""
    return f"ground-of-{run_id}"


def place(standing: Standing, now: Moment) -> Draft:
    """The holder wants something to stand on."""
    wish = placing.Place(workspace_id=ground_of(standing.run_id), provider="kubernetes", scope="c1", spec=to_json({}))
    draft = standing.draft()
    return draft if standing.workspaces else placing.place(standing, _holder(standing), wish, now)


def attach(standing: Standing, now: Moment) -> Draft:
    """The run stands on a body from now on."""
    body = placing.Attach(identity="pod:1", incarnation=0, details={})
    return placing.attach(standing, ground_of(standing.run_id), body, now)


def see(kind: Any, **what: Any) -> Act:
    """Something is seen of the body."""
    seen = (observing.Observation(kind=kind, **what),)

    def decide(standing: Standing, now: Moment) -> Draft:
        return observing.observe(standing, ground_of(standing.run_id), seen, LastSeen(), (PARTIAL, now))

    return decide


def let_go(standing: Standing, now: Moment) -> Draft:
    """Nobody needs the body any more."""
    return placing.release(standing, ground_of(standing.run_id), releasing.Release(by="ada", cause="asked_for"), now)


def take_turn(standing: Standing, now: Moment) -> Draft:
    """A turn is admitted."""
    known = bool(standing.workspaces)
    return turns.admit(standing, _holder(standing), ground_of(standing.run_id) if known else None, now)


def _token(standing: Standing) -> str:
    return standing.lease.token if isinstance(standing.lease, Reserved) else "none"


def _holder(standing: Standing) -> Presented:
    return Presented(fence=standing.lease.fence)


ACTS: dict[str, Act] = {
    "submit": submit(name="nightly", tags={"team": "core", "a": "b"}, payload=to_json({"n": 1})),
    "submit to its leader": submit(leader_id="ada", queue="other", policy=Policy(verdict_by="leader", max_attempts=2)),
    "submit sliced": submit(priority=5, policy=Policy(max_hold_s=30.0, lease_ttl_s=10.0, retry_base_s=1.0)),
    "claim": claim("w1"),
    "claim by id": claim("w2", by_id=True),
    "reserve": claim("w1", token="t1"),
    "bind": bind,
    "unreserve": unreserve,
    "lapse": lapse,
    "wait for input": park("waiting_input"),
    "wait for a peer": park("waiting_peer", keep_lease=True),
    "wait for a take-over": park("waiting_takeover"),
    "hand back": hand_back,
    "succeed": close("succeeded", result=[1, 2]),
    "fail": close("failed", error={"code": "boom"}),
    "fail for good": close("failed", retryable=False),
    "expire": expire,
    "end the slice": end_slice,
    "answer": answer,
    "resume": resume,
    "pause": pause,
    "cancel": cancel,
    "the cancel is due": cancel_due,
    "judge": judge("succeeded"),
    "report the stop": report_stop,
    "begin an effect": begin_effect,
    "place": place,
    "attach": attach,
    "lose the ground": see("gone", reason="PodDeleted"),
    "restart the harness": see("harness_restarted", reason="OOMKilled"),
    "lose sight": see("watch_dropped"),
    "see again": see("synced"),
    "let the ground go": let_go,
    "take a turn": take_turn,
}


def correlated(draft: Draft) -> Iterable[tuple[str, Fact]]:
    """The facts of a decision with their streams, in order."""
    return list(draft.entries)


class Marks:
    """The evidence of leases, made by grants and ended by whatever ends the lease."""

    def __init__(self) -> None:
        self._marks: dict[str, LeaseMark] = {}

    def get(self, run_id: str) -> LeaseMark | None:
        """The mark of a run's lease."""
        return self._marks.get(run_id)

    def follow(self, run_id: str, draft: Draft, now: Moment) -> None:
        """Marks as they are after a decision."""
        for _, fact in draft.entries:
            if isinstance(fact, FenceBumped | LeaseBound):
                deadline = now.mono + fact.ttl_s
                self._marks[run_id] = LeaseMark(fence=fact.fence, deadline=deadline, renewed_at=now.wall)

    def renew(self, run_id: str, ttl_s: float, now: Moment) -> None:
        """The holder was heard."""
        mark = self._marks[run_id]
        self._marks[run_id] = LeaseMark(
            fence=mark.fence, deadline=now.mono + ttl_s, renewed_at=now.wall, renewals=mark.renewals + 1
        )

    def detach(self, run_id: str, now: Moment) -> None:
        """The holder's last stream was closed by its side."""
        changed = msgspec.structs.replace(self._marks[run_id], deadline=now.mono + 1.0, detached=True)
        self._marks[run_id] = changed


class Story:
    """One run, told act by act: its facts as they are recorded, and how it stands."""

    def __init__(self, run_id: str = "r1") -> None:
        self.run_id = run_id
        self.now = NOON
        self.facts: list[Recorded] = []
        self.marks = Marks()
        ground = workspace_stream(ground_of(run_id))
        self._states = {
            name: FOLDS[prefix_of(name)].initial
            for name in (f"run-{run_id}", lease_stream(run_id), effects_stream(run_id), ground)
        }

    @property
    def standing(self) -> Standing:
        """How the run stands."""
        run, lease, ledger, ground = self._states.values()
        mark, workspaces = self.marks.get(self.run_id), (ground,) if isinstance(ground, Workspace) else ()
        return Standing(run_id=self.run_id, run=run, lease=lease, effects=ledger, mark=mark, workspaces=workspaces)

    def then(self, act: Act | str, *, at: float | None = None) -> "Story":
        """The story with one more act, at that many seconds after noon.

        Raises:
            Refusal: the domain refused it.
        """
        if at is not None:
            self.now = NOON.after(at)
        draft = (ACTS[act] if isinstance(act, str) else act)(self.standing, self.now)
        cause: str | None = f"command-{len(self.facts)}"
        for stream, fact in draft.entries:
            cause = self._record(stream, fact, cause)
        self.marks.follow(self.run_id, draft, self.now)
        return self

    def renewed(self, *, at: float) -> "Story":
        """The story, the holder having been heard at that second."""
        self.now = NOON.after(at)
        held = self.standing.lease
        assert isinstance(held, Held)
        self.marks.renew(self.run_id, held.ttl_s, self.now)
        return self

    def detached(self, *, at: float) -> "Story":
        """The story, the holder's stream having been closed by its side at that second."""
        self.now = NOON.after(at)
        self.marks.detach(self.run_id, self.now)
        return self

    def _record(self, stream: str, fact: Fact, cause: str | None) -> str:
        state = self._states[stream] = FOLDS[prefix_of(stream)].evolve(self._states[stream], fact)
        position = len(self.facts) + 1
        meta = Meta(f"fact-{position}", self.now.wall, cause, self.run_id, None, "ada", TENANT)
        self.facts.append(Recorded(position, stream, state.version, topic_of(type(fact)), fact, meta))
        return meta.fact_id


def attempted(act: Act, standing: Standing, now: Moment) -> RunDraft | Draft | None:
    """The decision, or None when the domain refuses."""
    try:
        return act(standing, now)
    except Refusal:
        return None
