"""Every bound of what the domain takes, for ``tests.domain.written``.

A bound is met at its last good value and at the first one past it; what is refused stands there with its sentence.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from domain import effects, observing, placing, presence, queue, quiet, steering, submission, worker
from domain import lease as leases
from domain import workspace_refusals as bounds
from domain.observing import Observation
from domain.placing import Attach
from domain.presence import Connect
from domain.submission import Policy, Submit
from domain.workspace_facts import LastSeen
from tests.domain import ground_facts
from tests.domain.facts import (
    LEADER,
    granted,
    submitted,
)
from tests.domain.ground_facts import BODY, admitted, fail, ground, moved, place
from tests.domain.kit import NOON, given, noon, text
from tests.domain.others import Ask, Page, claim, each
from tests.domain.written import outcome, together


def submit(**wish: Any) -> Ask:
    """Whether this may be submitted."""
    return lambda: submission.check(Submit(**wish))


def policy(**wish: Any) -> Ask:
    """Whether this may be a policy."""
    return submit(policy=Policy(**wish))


def around(field: str, low: Any, past_low: Any, high: Any, past_high: Any) -> dict[str, Ask]:
    """A bound of the policy at both of its ends, and one past each."""
    return {f"{field} {value!r}": policy(**{field: value}) for value in (past_low, low, high, past_high)}


def texts(field: str, most: int, ask: Callable[[str], Ask]) -> dict[str, Ask]:
    """A text without a character, with one, with as many as may be, and with one more."""
    return {f"{field} of {n}": ask("a" * n) for n in (0, 1, most, most + 1, most + 9)}


YEAR = submission.DURATION_MAX_S
LONG = submission.NAME_MAX_CHARS
MANY = submission.LABELS_MAX
DETAIL = bounds.DETAIL_MAX_CHARS
CODE = observing.EXIT_CODE_MAX


def _map(count: int) -> dict[str, str]:
    return {f"k{n}": "v" for n in range(count)}


WISH = Submit(
    queue="mail", name="n", tags={"t": "1"}, payload=text({"p": 1}), leader_id="lea", labels={"gpu": "a"}, priority=3,
    run_after=noon(30), concurrency_key="k", policy=Policy(max_attempts=5), retry_of="r6", body_digest="d",
)  # fmt: skip

SUBMISSION_PAGE: Page = {
    "ids": each(
        {
            **texts("id", submission.ID_MAX_CHARS, lambda value: lambda: submission.check_id("thing", value)),
            "other characters": lambda: submission.check_id("thing", "a/b"),
            "all characters": lambda: submission.check_id("thing", "aZ09._-"),
            "queue": submit(queue="a b"),
            "leader": submit(leader_id="a b"),
            "leader that takes over": lambda: quiet.reassign(given(submitted()).standing, "a b", 1, LEADER, NOON),
            "worker": lambda: worker.register(worker.UNREGISTERED, "a b", {}, 1),
            "leader that connects": lambda: presence.connect(
                presence.NEVER_SEEN, Connect(leader_id="a b", connection_id="c", kind="stream", boot_id=None), noon()
            ),
            "connection": lambda: presence.connect(
                presence.NEVER_SEEN, Connect(leader_id="lea", connection_id="c d", kind="stream", boot_id=None), noon()
            ),
            "queue to be bounded": lambda: queue.configure(queue.UNCONFIGURED, "a b", None, 1),
        }
    ),
    "names": each(
        {
            **texts("name", LONG, lambda value: submit(name=value)),
            **texts("concurrency_key", LONG, lambda value: submit(concurrency_key=value)),
        }
    ),
    "maps": each(
        {
            "tags": submit(tags=_map(MANY)),
            "tags and one": submit(tags=_map(MANY + 1)),
            "labels": submit(labels=_map(MANY)),
            "labels and one": submit(labels=_map(MANY + 1)),
            **texts("key", LONG, lambda value: submit(tags={value: "v"})),
            **texts("text", LONG, lambda value: submit(labels={"k": value})),
            "labels of a worker": lambda: worker.register(worker.UNREGISTERED, "ada", _map(MANY + 1), 1),
        }
    ),
    "numbers": each(
        {
            **{
                f"priority {value}": submit(priority=value)
                for value in (
                    -submission.PRIORITY_MAX - 1,
                    -submission.PRIORITY_MAX,
                    submission.PRIORITY_MAX,
                    submission.PRIORITY_MAX + 1,
                )
            },
            **around("max_attempts", 1, 0, submission.MAX_ATTEMPTS_MAX, submission.MAX_ATTEMPTS_MAX + 1),
            **around("lease_ttl_s", leases.TTL_MIN_S, 0.4, leases.TTL_MAX_S, leases.TTL_MAX_S + 1),
            **around("max_hold_s", leases.TTL_MIN_S, 0.4, YEAR, YEAR + 1),
            **around("retry_base_s", 0, -1, YEAR, YEAR + 1),
            **around("retry_cap_s", 0, -1, YEAR, YEAR + 1),
            **around("quiet_after_s", 0, -1, YEAR, YEAR + 1),
            **around("total_after_s", 0, -1, YEAR, YEAR + 1),
            **{
                f"slots {n}": partial(worker.register, worker.UNREGISTERED, "ada", {}, n)
                for n in (0, 1, worker.SLOTS_MAX, worker.SLOTS_MAX + 1)
            },
            **{
                f"max_leases {n}": partial(queue.configure, queue.UNCONFIGURED, "mail", n, 1)
                for n in (-1, 0, queue.LEASES_MAX, queue.LEASES_MAX + 1)
            },
            **{
                f"max_per_key {n}": partial(queue.configure, queue.UNCONFIGURED, "mail", 5, n)
                for n in (0, 1, queue.LEASES_MAX, queue.LEASES_MAX + 1)
            },
            **{
                f"ttl_s {ttl}": partial(presence.check_session_ttl, ttl)
                for ttl in (0.9, presence.SESSION_TTL_MIN_S, presence.SESSION_TTL_MAX_S, presence.SESSION_TTL_MAX_S + 1)
            },
        }
    ),
    "a verdict by nobody": each({"leader": policy(verdict_by="leader"), "worker": policy()}),
    "effects": each(texts("key", effects.KEY_MAX_CHARS, lambda value: lambda: claim(key=value)(effects.EMPTY))),
    "backoff": each({str(n): partial(Policy().backoff_s, n) for n in (0, 1, 2, 3, 5, 6, 64, 65, 2000)}),
    "run ids": each({"of a key": lambda: submission.run_id_of("acme", "mail", "k1")}),
    "submitted": each(
        {
            "with everything": lambda: steering.submit("r7", "acme", WISH, NOON),
            "with nothing": lambda: steering.submit("r7", "acme", Submit(), NOON),
            "again": lambda: steering.again(given(steering.submit("r7", "acme", WISH, NOON)).run),
        }
    ),
}


def ground_asks(asks: Mapping[str, Any]) -> Callable[[], str]:
    """What a run that stands on w1, with one turn under way, says to each of these."""

    def make() -> str:
        run = given(submitted(), granted(), ground(), admitted(), moved())
        return together((name, outcome(run, decide, 20.0)) for name, decide in asks.items())

    return make


def _of_text(field: str, most: int, ask: Callable[[str], Any]) -> dict[str, Any]:
    return {f"{field} of {n}": ask("a" * n) for n in (0, 1, most, most + 1, most + 9)}


def _attach(**command: Any) -> Any:
    wish = Attach(**{"identity": BODY, "incarnation": 1, **command})
    return lambda standing, remains, now: placing.attach(standing, "w1", wish, now)


def _observe(kind: Any = "present", **more: Any) -> Any:
    report = [Observation(kind=kind, **more)]
    return lambda standing, remains, now: observing.observe(standing, "w1", report, LastSeen(), (remains, now))


BOUNDS_PAGE: Page = {
    "place": ground_asks(_of_text("scope", bounds.SCOPE_MAX_CHARS, lambda value: place(scope=value))),
    "attach": ground_asks(
        {
            **_of_text("identity", bounds.IDENTITY_MAX_CHARS, lambda value: _attach(identity=value)),
            **_of_text("detail's name", DETAIL, lambda value: _attach(details={value: "v"})),
            **_of_text("detail", DETAIL, lambda value: _attach(details={"d": value})),
            "details": _attach(details=_map(bounds.DETAILS_MAX)),
            "details and one": _attach(details=_map(bounds.DETAILS_MAX + 1)),
            "incarnation -1": _attach(incarnation=-1),
            "the last incarnation": _attach(incarnation=bounds.INCARNATION_MAX),
            "one more": _attach(incarnation=bounds.INCARNATION_MAX + 1),
        }
    ),
    "observe": ground_asks(
        {
            **_of_text("identity", bounds.IDENTITY_MAX_CHARS, lambda value: _observe(identity=value)),
            **_of_text("reason", bounds.REASON_MAX_CHARS, lambda value: _observe(reason=value)),
            **_of_text("version", bounds.VERSION_MAX_CHARS, lambda value: _observe(version=value)),
            **_of_text("message", bounds.MESSAGE_MAX_CHARS, lambda value: _observe(message=value)),
            "incarnation -1": _observe(incarnation=-1),
            "one too many": _observe(incarnation=bounds.INCARNATION_MAX + 1),
            **{
                f"exit code {code}": _observe("ended", reason="ProcessExited", exit_code=code)
                for code in (-CODE - 1, -CODE, CODE, CODE + 1)
            },
            "a reason of nobody": _observe("gone", reason="Whatever"),
            "a reason of nobody while it is there": _observe("present", reason="Whatever"),
        }
    ),
    "fail a turn": ground_asks(
        {
            **_of_text("code", bounds.REASON_MAX_CHARS, lambda value: fail(value, None)),
            **_of_text("message", bounds.MESSAGE_MAX_CHARS, lambda value: fail("no", value)),
        }
    ),
    "provision": ground_asks(
        _of_text(
            "identity",
            bounds.IDENTITY_MAX_CHARS,
            lambda value: lambda standing, remains, now: placing.provision(standing, "w1", value, now),
        )
    ),
    "fault": ground_asks(
        {
            **_of_text("reason", bounds.REASON_MAX_CHARS, lambda value: ground_facts.fault(value)),
            **_of_text("message", bounds.MESSAGE_MAX_CHARS, lambda value: ground_facts.fault("PodFailed", value)),
        }
    ),
    "wait": ground_asks(
        _of_text(
            "message",
            bounds.MESSAGE_MAX_CHARS,
            lambda value: lambda standing, remains, now: placing.wait_for(standing, "w1", "node", value, now),
        )
    ),
}
