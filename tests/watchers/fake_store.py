"""What an API server remembers: objects with rising versions, and a bounded window of their changes.

Faithful where an observer could tell the difference: one version counter for everything; a UID for each making; an
object that leaves a selection is *deleted* for whoever watches that selection; a pod on a node is deleted in two steps,
any other at once; forcing a deletion moves its instant back; versions older than the window are expired.
"""

import copy
from collections import deque
from dataclasses import dataclass
from typing import Any
from uuid import UUID

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace, name."""

PODS, SANDBOXES, NODES = "pods", "sandboxes", "nodes"
DELETED_AT = "2030-01-01T00:00:30Z"
FORCED_AT = "2030-01-01T00:00:00Z"


class Status(Exception):
    """A refusal with its status document."""

    def __init__(self, code: int, reason: str, message: str = "") -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.document = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message or reason,
        }  # fmt: skip


@dataclass(frozen=True)
class Record:
    """One change: its version, what the object was, and what it is."""

    version: int
    plural: str
    before: Object | None
    after: Object | None

    @property
    def last(self) -> Object:
        """The object as this change left it, or as it was deleted."""
        found = self.after or self.before
        assert found is not None
        return found


def selects(selector: str, found: Object | None) -> bool:
    """Whether a label selector picks the object."""
    if found is None:
        return False
    labels = found["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        name, sign, value = _split(part)
        if sign == "!=" and labels.get(name) == value:
            return False
        if sign == "=" and labels.get(name) != value:
            return False
        if not sign and name not in labels:
            return False
    return True


def _split(part: str) -> tuple[str, str, str]:
    for sign in ("!=", "="):
        name, found, value = part.partition(sign)
        if found:
            return name, sign, value
    return part, "", ""


def merge(under: Any, over: Any) -> Any:
    """A merge patch applied (RFC 7386)."""
    if not isinstance(over, dict):
        return copy.deepcopy(over)
    result = dict(under) if isinstance(under, dict) else {}
    for name, value in over.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


class Store:
    """Objects, and the window of their latest changes."""

    def __init__(self, window: int = 1_000) -> None:
        self.objects: dict[Key, Object] = {}
        self.window: deque[Record] = deque(maxlen=window)
        self.version = 1_000
        self.floor = 1_000
        self.quota: int | None = None
        self._made = 0

    def compact(self) -> None:
        """Forget every change so far."""
        self.window.clear()
        self.floor = self.version

    def create(self, plural: str, namespace: str, wish: Object) -> Object:
        """A new object, with a UID of its own."""
        name = wish["metadata"]["name"]
        key = (plural, namespace, name)
        if key in self.objects:
            raise Status(409, "AlreadyExists", f'{plural} "{name}" already exists')
        if self.quota is not None and len(self.objects) >= self.quota:
            raise Status(403, "Forbidden", f'{plural} "{name}" is forbidden: exceeded quota: all={self.quota}')
        if plural == PODS and not all(one.get("name") for one in (wish.get("spec") or {}).get("containers") or [{}]):
            raise Status(422, "Invalid", "spec.containers: Required value")
        self._made += 1
        made = copy.deepcopy(wish)
        made["metadata"] |= {
            "uid": str(UUID(int=(0xFACE << 96) + self._made)),
            "creationTimestamp": "2030-01-01T00:00:00Z",
        }
        if plural != NODES:
            made["metadata"]["namespace"] = namespace
        if plural == PODS:
            made.setdefault("status", {}).setdefault("phase", "Pending")
        return self._write(key, made)

    def patch(self, key: Key, patch: Object) -> Object:
        """The object with a merge patch applied; a UID in the patch is a precondition."""
        found = self.find(key)
        uid = (patch.get("metadata") or {}).get("uid")
        if uid is not None and uid != found["metadata"]["uid"]:
            raise Status(409, "Conflict", "the UID in the patch is another one's")
        return self._write(key, merge(found, patch))

    def delete(self, key: Key, options: Object) -> Object:
        """The end of an object, or its beginning: a pod on a node takes its grace."""
        found = self.find(key)
        uid = (options.get("preconditions") or {}).get("uid")
        if uid is not None and uid != found["metadata"]["uid"]:
            raise Status(409, "Conflict", "the UID in the precondition is another one's")
        forced = options.get("gracePeriodSeconds") == 0
        on_a_node = key[0] == PODS and (found.get("spec") or {}).get("nodeName")
        terminal = (found.get("status") or {}).get("phase") in ("Failed", "Succeeded")
        at = FORCED_AT if forced or not on_a_node or terminal else DELETED_AT
        found = self._write(key, merge(found, {"metadata": {"deletionTimestamp": at}}))
        if at == FORCED_AT:
            self.remove(key)
        return found

    def remove(self, key: Key) -> None:
        """The object is no more; what a sandbox owned goes with it."""
        before = self.objects.pop(key)
        self.version += 1
        last = copy.deepcopy(before)
        last["metadata"]["resourceVersion"] = str(self.version)
        self._remember(Record(self.version, key[0], before, None), last)
        for other, owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == before["metadata"]["uid"] for owner in owners):
                self.remove(other)

    def find(self, key: Key) -> Object:
        """The object of that name."""
        if key not in self.objects:
            raise Status(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self.objects[key]

    def listed(self, plural: str, namespace: str | None, selector: str) -> list[Object]:
        """The objects that a list shows, by namespace and name."""
        return [
            found
            for key, found in sorted(self.objects.items())
            if key[0] == plural and namespace in (None, key[1]) and selects(selector, found)
        ]

    def _write(self, key: Key, value: Object) -> Object:
        before = self.objects.get(key)
        self.version += 1
        value = copy.deepcopy(value)
        value["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = value
        self._remember(Record(self.version, key[0], before, value), value)
        return value

    def _remember(self, record: Record, last: Object) -> None:
        if len(self.window) == self.window.maxlen:
            self.floor = self.window[0].version
        if record.after is None:
            record = Record(record.version, record.plural, last, None)
        self.window.append(record)


def seen_by(record: Record, namespace: str | None, selector: str) -> tuple[str, Object] | None:
    """The change as a watch of this selection shows it: its type and object; None when it shows nothing."""
    last = record.last
    if namespace is not None and last["metadata"].get("namespace") != namespace:
        return None
    was, is_now = selects(selector, record.before), selects(selector, record.after)
    if is_now:
        return ("MODIFIED" if was and record.before is not None else "ADDED"), last
    return ("DELETED", last) if was else None
