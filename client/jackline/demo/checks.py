"""Whether the story that was told is true: every claim of the demo, checked against the journal and the world."""

from collections.abc import Iterator
from dataclasses import dataclass

from jackline.demo.scripts.crawl import chained, files_below
from jackline.demo.story import Told
from jackline.models import Fact


@dataclass(frozen=True, slots=True)
class Check:
    """One claim, whether it holds, and the position of the fact that shows it."""

    claim: str
    holds: bool
    position: int | None = None


def checks(told: Told) -> Iterator[Check]:
    """Every claim."""
    for run in (told.crawl, told.build, told.session):
        yield Check(f"{run.name} succeeded", run.state == "succeeded", run.position)
    yield from _taken_over(told)
    yield from _continued(told)
    yield from _retried(told)
    yield from _caused_once(told)
    yield from _refused(told)


def _of(facts: list[Fact], topic: str) -> list[Fact]:
    return [fact for fact in facts if fact.topic == topic]


def _taken_over(told: Told) -> Iterator[Check]:
    for name in ("crawl", "session"):
        starts = _of(told.facts[name], "run.attempt_started.v1")
        first, second = starts[0].data, starts[1].data
        yield Check(
            f"{name}: {second['worker']} took over from {first['worker']} under the next fence",
            (first["worker"], second["worker"]) == ("one", "two") and second["fence"] == first["fence"] + 1,
            starts[1].position,
        )


def _continued(told: Told) -> Iterator[Check]:
    result = told.crawl.result
    yield Check(f"crawl: went on at file {result['begun_at']}, not at the first", result["begun_at"] > 0)
    digest = ""
    files = files_below(told.tree)
    for path in files:
        digest = chained(digest, told.tree, path)
    same = result["digest"] == digest and result["files"] == len(files)
    yield Check(f"crawl: its digest over {len(files)} files is that of an uninterrupted crawl", same)


def _retried(told: Told) -> Iterator[Check]:
    closes = _of(told.facts["build"], "run.closed.v1")
    outcomes = [fact.data["outcome"] for fact in closes]
    yield Check("build: failed once, waited, and succeeded", outcomes == ["failed", "succeeded"], closes[-1].position)


def _caused_once(told: Told) -> Iterator[Check]:
    done = _of(told.facts["session"], "effect.completed.v1")
    attempts = len(_of(told.facts["session"], "run.attempt_started.v1"))
    once = len(done) == 1 and len(told.outbox) == 1
    yield Check(f"session: {attempts} attempts, one line in the outbox", once, done[0].position)
    yield Check("session: ended with the answer that it was given", told.session.result["answer"] == "yes")


def _refused(told: Told) -> Iterator[Check]:
    granted = _of(told.facts["crawl"], "lease.fence_bumped.v1")[1]
    refusal = told.refusal
    right = (refusal.presented, refusal.current, refusal.holder) == (1, granted.data["fence"], granted.data["worker"])
    yield Check(f"crawl: a close by worker one was refused: {refusal.detail}", right, granted.position)
    lost = [entry for entry in told.worker_log if entry["happening"] == "claim_lost"]
    right = len(lost) >= 2 and all((entry["presented"], entry["holder"]) == (1, "two") for entry in lost)
    yield Check("worker one, brought back, was told that two holds both runs, and nothing of it is left", right)
