"""What a change of a pod means for the workspace that it is the body of: one table, pure.

    not scheduled yet                             nothing: it is starting, and has clocks of its own
    scheduled                                     present, with the reason and message last seen
    restart count rose, or another container      harness_restarted, with how the container before it ended
    deletion under way                            present, saying so: it may yet take its grace
    not ready on a node that nobody hears         watch_dropped: not known, for as long as that lasts
    heard again                                   present and synced
    phase Failed or Succeeded, same UID           ended, once: evicted, shut down, failed, succeeded
    phase running again after an end              nothing: impossible, and counted
    deleted, or absent from a complete list       gone, with the last reason and message seen

A pod that is being deleted when its phase becomes terminal ended *because* it was deleted (or drained, preempted, its
node lost): that is the reason then, not the exit code that its harness ended with on the way.

The incarnation is the main container's restart count, made monotone: a kubelet that lost count, or a new container
under an old count, still raises it. Several restarts between two looks are one jump.

Units: none. Bounds: a reason of 64 characters, a message of 4,000. Failure: none; what is not said is left out.
"""

from dataclasses import dataclass, replace
from typing import Final

from jackline.workspaces.contract import Observation
from watchers.kubernetes.shapes import TERMINAL, Condition, ContainerStatus, Ended, Pod, Sandbox

REASON_MAX_CHARS: Final = 64
MESSAGE_MAX_CHARS: Final = 4_000

POD_DELETED: Final = "PodDeleted"
POD_FAILED: Final = "PodFailed"
BY_STATUS: Final = {
    "Evicted": "Evicted",
    "Preempting": "Evicted",
    "Preempted": "Evicted",
    "NodeLost": "NodeLost",
    "Terminated": "Terminated",
    "Shutdown": "Terminated",
    "NodeShutdown": "Terminated",
}
BY_DISRUPTION: Final = {
    "EvictionByEvictionAPI": "Evicted",
    "PreemptionByScheduler": "Evicted",
    "PreemptionByKubeScheduler": "Evicted",
    "TerminationByKubelet": "Terminated",
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
}


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a pod: whether its node is silent, and the sandbox that controls it."""

    unreachable: bool = False
    sandbox: Sandbox | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """What is known of one body: the pod as last seen, and what was told about it."""

    workspace_id: str
    pod: Pod
    incarnation: int = 0
    over: bool = False
    dropped: bool = False
    said: tuple[str | None, str | None] | None = None
    """Reason and message as last told; None before anything was."""

    @property
    def identity(self) -> str:
        """The identity: the UID, which no other pod has or will have."""
        return identity_of(self.pod.metadata.uid)

    @property
    def tellable(self) -> bool:
        """Whether it is there to be told as present."""
        return self.pod.scheduled and not self.over


@dataclass(frozen=True, slots=True)
class Judged:
    """The body from now on, and what to tell."""

    body: Body
    told: tuple[Observation, ...] = ()
    impossible: bool = False


def identity_of(uid: str) -> str:
    """The written identity of the pod with this UID."""
    return f"pod:{uid}"


def uid_of(identity: str) -> str | None:
    """The UID in a written identity; None when it is not a pod's."""
    kind, _, uid = identity.partition(":")
    return uid if kind == "pod" and uid else None


def seen(workspace_id: str, pod: Pod, around: Around, known_incarnation: int | None = None) -> Judged:
    """A body that is seen for the first time; the service may know an incarnation of it from another observer."""
    count = _count(pod.main)
    body = Body(workspace_id, pod, incarnation=max(known_incarnation or 0, count))
    judged = _judged(body, pod, around)
    if known_incarnation is None or count <= known_incarnation or not judged.body.tellable:
        return judged
    return replace(judged, told=(_restarted(judged.body), *judged.told))


def changed(body: Body, pod: Pod, around: Around) -> Judged:
    """A body that is seen again, with the same UID."""
    counted = _incarnation(body, pod)
    if counted == body.incarnation or body.over or pod.status.phase in TERMINAL:
        return _judged(replace(body, pod=pod, incarnation=counted), pod, around)
    judged = _judged(replace(body, pod=pod, incarnation=counted), pod, around)
    return replace(judged, told=(_restarted(judged.body), *judged.told))


def deleted(body: Body, last: Pod, around: Around, version: str | None) -> Observation:
    """A body that is no more: its object was deleted, or a complete list of this version lacks it."""
    reason, message = _gone(body, last, around)
    return Observation(
        "gone", body.identity, body.incarnation, reason, message, _exit_code(last), version or _version_of(last)
    )


def present(body: Body) -> Observation:
    """The body as it stands, for a full statement."""
    reason, message = body.said or (None, None)
    return Observation("present", body.identity, body.incarnation, reason, message, version=_version_of(body.pod))


def ended(body: Body) -> Observation:
    """The body's end once more, for whoever has not heard of it."""
    return _ended(body, body.pod)


def named(body: Body) -> Observation:
    """The body is still there, though it has ended: nothing follows, but it is not absent."""
    return dropped(body, "Ended", "it has ended, and is still there")


def synced(body: Body) -> Observation:
    """Together with `present` in one batch: it is known again."""
    return Observation("synced", body.identity, version=_version_of(body.pod))


def dropped(body: Body, reason: str, message: str | None = None) -> Observation:
    """The body is out of sight."""
    return Observation("watch_dropped", body.identity, None, _cut(reason, REASON_MAX_CHARS), _cut(message))


def unheard(body: Body) -> Observation:
    """The body is on a node that nobody hears from."""
    return dropped(body, "NodeUnreachable", f"nobody hears from node {body.pod.spec.node_name}")


def _judged(body: Body, pod: Pod, around: Around) -> Judged:
    if pod.status.phase in TERMINAL:
        return Judged(replace(body, over=True, dropped=False), () if body.over else (_ended(body, pod),))
    if body.over:
        return Judged(body, impossible=True)
    if not pod.scheduled:
        return Judged(body)
    if pod.status.phase == "Unknown" or (around.unreachable and not pod.ready):
        return _out_of_sight(body)
    return _in_sight(body, pod, around)


def _out_of_sight(body: Body) -> Judged:
    if body.dropped:
        return Judged(body)
    return Judged(replace(body, dropped=True), (unheard(body),))


def _in_sight(body: Body, pod: Pod, around: Around) -> Judged:
    news = _news(pod, around)
    after = replace(body, dropped=False, said=news)
    if body.dropped:
        return Judged(after, (present(after), synced(after)))
    return Judged(after, (present(after),) if body.said != news else ())


def _restarted(body: Body) -> Observation:
    main = body.pod.main
    last = main.last_state.terminated if main is not None and main.last_state is not None else None
    last = last or Ended()
    return Observation(
        "harness_restarted",
        body.identity,
        body.incarnation,
        _cut(last.reason, REASON_MAX_CHARS),
        _cut(last.message),
        last.exit_code,
        _version_of(body.pod),
    )


def _ended(body: Body, pod: Pod) -> Observation:
    message = _sentence(pod.status.message, _disruption_says(pod), _container_says(pod.main), _oddity(pod))
    return Observation(
        "ended", body.identity, body.incarnation, _end_of(pod), message, _exit_code(pod), _version_of(pod)
    )


def _end_of(pod: Pod) -> str:
    """The reason of a terminal phase, from the closed list."""
    disruption = _disruption(pod)
    found = BY_STATUS.get(pod.status.reason or "") or BY_DISRUPTION.get((disruption and disruption.reason) or "")
    if found is not None:
        return found
    if pod.metadata.deletion_timestamp is not None:
        return POD_DELETED
    return "PodSucceeded" if pod.status.phase == "Succeeded" else POD_FAILED


def _gone(body: Body, last: Pod, around: Around) -> tuple[str, str | None]:
    if last.status.phase in TERMINAL:
        told = _ended(body, last)
        return told.reason or POD_DELETED, told.message
    disruption = _disruption(last)
    reason = BY_DISRUPTION.get((disruption and disruption.reason) or "", POD_DELETED)
    suspended = around.sandbox.suspended if around.sandbox is not None else None
    said = None if suspended is None or around.sandbox is None else _suspension(around.sandbox, suspended)
    last_news = _sentence(*(body.said or ())) if last.metadata.deletion_timestamp is None else None
    return reason, _sentence(said, _disruption_says(last), last.status.message, _container_says(last.main), last_news)


def _suspension(sandbox: Sandbox, why: Condition) -> str:
    named = f"sandbox {sandbox.metadata.name} was suspended ({why.reason})"
    return f"{named}: its pod was taken away, what its volumes hold is kept"


def _news(pod: Pod, around: Around) -> tuple[str | None, str | None]:
    """Reason and message of a pod that is there."""
    if pod.metadata.deletion_timestamp is not None:
        suspended = around.sandbox.suspended if around.sandbox is not None else None
        why = "its sandbox is being suspended" if suspended is not None else None
        return "Terminating", _sentence("it is being deleted", why, _disruption_says(pod))
    main = pod.main
    if main is not None and main.state is not None and main.state.waiting is not None and main.state.waiting.reason:
        return _cut(main.state.waiting.reason, REASON_MAX_CHARS), _cut(main.state.waiting.message)
    if main is not None and main.state is not None and main.state.terminated is not None:
        return _cut(main.state.terminated.reason, REASON_MAX_CHARS), _container_says(main)
    disruption = _disruption(pod)
    if disruption is not None:
        return _cut(disruption.reason, REASON_MAX_CHARS), _cut(disruption.message)
    return _cut(pod.status.reason, REASON_MAX_CHARS), _cut(pod.status.message)


def _disruption(pod: Pod) -> Condition | None:
    found = pod.condition("DisruptionTarget")
    return found if found is not None and found.status == "True" else None


def _disruption_says(pod: Pod) -> str | None:
    found = _disruption(pod)
    return None if found is None else _sentence(found.reason, found.message, between=": ")


def _container_says(main: ContainerStatus | None) -> str | None:
    """How the main container ended, if it has."""
    ended = end_of_container(main)
    if main is None or ended is None:
        return None
    how = f"signal {ended.signal}" if ended.signal else f"exit {ended.exit_code}"
    return _sentence(f"container {main.name}: {ended.reason or 'ended'}, {how}", ended.message, between=": ")


def _oddity(pod: Pod) -> str | None:
    """The pod's own reason, where it is not one of the closed list."""
    reason = pod.status.reason
    return None if reason is None or reason in BY_STATUS else reason


def end_of_container(main: ContainerStatus | None) -> Ended | None:
    """How the main container ended last, if it ever did."""
    if main is None:
        return None
    now = main.state.terminated if main.state is not None else None
    before = main.last_state.terminated if main.last_state is not None else None
    return now or before


def _exit_code(pod: Pod) -> int | None:
    ended = end_of_container(pod.main)
    return None if ended is None else ended.exit_code


def _count(main: ContainerStatus | None) -> int:
    return 0 if main is None else max(0, main.restart_count)


def _incarnation(body: Body, pod: Pod) -> int:
    """The incarnation now: never lower, and higher when another container runs."""
    before, now = body.pod.main, pod.main
    if before is None or now is None:
        return max(body.incarnation, _count(now))
    rise = max(0, _count(now) - _count(before))
    if rise == 0 and _is_another(body.pod, pod):
        rise = 1
    return body.incarnation + rise


def _is_another(before: Pod, now: Pod) -> bool:
    """Whether another container runs, although the count says nothing of it."""
    old, new = before.main, now.main
    ids = (old.container_id if old else None, new.container_id if new else None)
    if all(ids):
        return ids[0] != ids[1]
    return bool(before.status.pod_ip and now.status.pod_ip and before.status.pod_ip != now.status.pod_ip)


def _version_of(pod: Pod) -> str | None:
    return pod.metadata.resource_version or None


def _sentence(*parts: str | None, between: str = "; ") -> str | None:
    """The parts that say something, each once."""
    told = dict.fromkeys(part for part in parts if part)
    return _cut(between.join(told)) if told else None


def _cut(text: str | None, most: int = MESSAGE_MAX_CHARS) -> str | None:
    if not text:
        return None
    return text if len(text) <= most else text[: most - 1] + "…"
