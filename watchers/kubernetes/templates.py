"""From a template and a workspace's wish to the manifest of its body.

The template is the operator's, and may say everything that a Pod or a Sandbox may. The wish (`spec` of the workspace)
is of whoever placed it, and may change only what is in `ALLOWED`: a wish that could ask for a privileged container, a
host path or a secret would hand the provisioner's rights to anybody who holds a run. `any_spec` lifts that, where
everybody who may place workspaces may also make pods.

    {"kind": "Pod" | "Sandbox", "metadata": {"labels": {}, "annotations": {}},
     "spec": {"containers": [{"name": "main", "image": "…", "command": [], "args": [], "env": [], "resources": {}}]}}

It is merged over the template: objects member by member, lists of named things by name, everything else replaced. The
name and the marks of the body are ours, and come last.

Failure: `BadWish`, with what was asked for and what may be.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from watchers.kubernetes.shapes import ASSERTED_AT, MANAGED_BY, OURS, WORKSPACE_LABEL

DEFAULT_TEMPLATE: Final[dict[str, Any]] = {
    "kind": "Pod",
    "spec": {"restartPolicy": "Always", "containers": [{"name": "main"}]},
}
ALLOWED: Final = {
    "kind": None,
    "metadata": {"labels": None, "annotations": None},
    "spec": {
        "containers": {
            "name": None,
            "image": None,
            "command": None,
            "args": None,
            "workingDir": None,
            "env": {"name": None, "value": None},
            "resources": {"requests": None, "limits": None},
        },
    },
}
"""What a wish may say; None is anything below."""
RESERVED: Final = ("jackline.dev/", "app.kubernetes.io/managed-by", "agents.x-k8s.io/")
NAME_MAX_CHARS: Final = 63
API: Final = {"Pod": "v1", "Sandbox": "agents.x-k8s.io/v1beta1"}

Kind = Literal["Pod", "Sandbox"]


class BadWish(Exception):
    """The workspace's spec asks for what it may not, or for nothing that can be made."""


def body_name(workspace_id: str) -> str:
    """The name of the workspace's body: the same whenever it is asked for, and a name that the API accepts."""
    plain = re.sub(r"[^a-z0-9-]+", "-", workspace_id.lower()).strip("-")
    return f"jackline-{plain}"[:NAME_MAX_CHARS].rstrip("-")


def kind_of(spec: Any, template: Mapping[str, Any] = DEFAULT_TEMPLATE) -> Kind:
    """What kind of body a workspace wishes for."""
    asked = (spec or {}).get("kind") if isinstance(spec, dict) else None
    kind = asked or template.get("kind") or "Pod"
    if kind == "Pod":
        return "Pod"
    if kind == "Sandbox":
        return "Sandbox"
    msg = f"kind {kind!r} cannot be made; there are {' and '.join(API)}"
    raise BadWish(msg)


def manifest(
    workspace_id: str, spec: Any, template: Mapping[str, Any], asserted_at: str, *, any_spec: bool = False
) -> dict[str, Any]:
    """The manifest of the workspace's body.

    Raises:
        BadWish: it cannot be made from this wish.
    """
    wish = spec or {}
    if not isinstance(wish, dict):
        msg = f"the spec is {type(wish).__name__}, not an object"
        raise BadWish(msg)
    if not any_spec:
        _check(wish, ALLOWED, "spec")
    _check_marks(wish.get("metadata"))
    kind = kind_of(wish, template)
    made = merged(template, wish)
    if not isinstance(made.get("spec"), dict) or not made["spec"].get("containers"):
        msg = "neither the template nor the spec names a container"
        raise BadWish(msg)
    return _marked(kind, made, workspace_id, asserted_at)


def merged(under: Any, over: Any) -> Any:
    """`over` merged over `under`; neither is changed."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        both = {name: merged(under.get(name), value) for name, value in over.items() if value is not None}
        return {**{name: copy.deepcopy(value) for name, value in under.items() if name not in over}, **both}
    if isinstance(under, list) and isinstance(over, list) and _named(under) and _named(over):
        return _merged_by_name(under, over)
    return copy.deepcopy(over)


def _merged_by_name(under: list[Any], over: list[Any]) -> list[Any]:
    wanted = {one["name"]: one for one in over}
    kept = [merged(one, wanted.pop(one["name"], {})) for one in under]
    return [*kept, *(copy.deepcopy(one) for one in wanted.values())]


def _named(several: list[Any]) -> bool:
    return bool(several) and all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in several)


def _check(wish: Any, allowed: Any, path: str) -> None:
    if allowed is None:
        return
    for one in wish if isinstance(wish, list) else [wish]:
        if not isinstance(one, dict):
            msg = f"{path} is {type(one).__name__}, not an object"
            raise BadWish(msg)
        for name, value in one.items():
            if name not in allowed:
                msg = f"{path}.{name} may not be asked for; {path} may say {', '.join(allowed)}"
                raise BadWish(msg)
            _check(value, allowed[name], f"{path}.{name}")


def _check_marks(metadata: Any) -> None:
    """Marks of ours and of controllers are not for the asking."""
    for name in ("labels", "annotations"):
        marks = metadata.get(name) if isinstance(metadata, dict) else None
        for mark in marks if isinstance(marks, dict) else ():
            if str(mark).startswith(RESERVED):
                msg = f"spec.metadata.{name}.{mark} is reserved"
                raise BadWish(msg)


def _marked(kind: Kind, made: dict[str, Any], workspace_id: str, asserted_at: str) -> dict[str, Any]:
    labels = {MANAGED_BY: OURS, WORKSPACE_LABEL: workspace_id}
    metadata = merged(made.get("metadata") or {}, {"labels": labels, "annotations": {ASSERTED_AT: asserted_at}})
    metadata["name"] = body_name(workspace_id)
    if kind == "Pod":
        return {"apiVersion": API[kind], "kind": kind, "metadata": metadata, "spec": made["spec"]}
    pod = {"metadata": {"labels": metadata["labels"]}, "spec": made["spec"]}
    inner = {name: value for name, value in (made.get("sandbox") or {}).items() if name != "podTemplate"}
    return {"apiVersion": API[kind], "kind": kind, "metadata": metadata, "spec": {**inner, "podTemplate": pod}}
