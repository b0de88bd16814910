"""`jackline watch kubernetes`: observe the workspaces of one cluster, and with `--provision` make and destroy them.

It talks to the service over HTTP and to the cluster's API server, and runs anywhere from where both can be reached. Any
number may be started for one scope: one acts, the others wait and take over. SIGTERM or SIGINT hands the right back and
ends with 0.

Exit codes are those of `jackline`: 0 done, 2 a setting or the command line, 6 a key that may not do this.
"""

import asyncio
import json as jsonlib
import secrets
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from jackline.cli.exits import USAGE, Fault
from jackline.cli.place import Place, run_async, verb
from jackline.cli.show import safe
from jackline.clock import SYSTEM, wall
from jackline.retrying import Retry
from watchers.kubernetes.credentials import Access, NoAccess, find_access
from watchers.kubernetes.observer import SELECTOR, Also, Observer, Observing, Plan
from watchers.kubernetes.provider import KubernetesProvider, Making
from watchers.kubernetes.provisioner import Provisioner
from watchers.kubernetes.reflector import Pace
from watchers.kubernetes.server import ApiServer, Bounds
from watchers.kubernetes.templates import DEFAULT_TEMPLATE

PATIENCE = Retry(patience_s=5.0)
SCOPE_MAX_CHARS = 128

watch = typer.Typer(help="Observe workspaces that are elsewhere.", no_args_is_help=True, add_completion=False)


@watch.callback()
def _watch() -> None:
    """Observe workspaces that are elsewhere."""


def watch_kubernetes(
    place: Place,
    scope: Annotated[str, typer.Option(help="What is watched as a whole: one name for each cluster.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this one; default: all of them.")
    ] = None,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Which pods and sandboxes.")] = SELECTOR,
    kubeconfig: Annotated[
        str | None, typer.Option(help="A kubeconfig; default: the pod's own access, else what kubectl uses.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="A context of it; default: the current one.")] = None,
    provision: Annotated[bool, typer.Option("--provision", help="Also make, assert and destroy bodies.")] = False,
    template: Annotated[Path | None, typer.Option(help="What bodies are made from: YAML or JSON.")] = None,
    any_spec: Annotated[bool, typer.Option("--any-spec", help="Workspaces may ask for any pod at all.")] = False,
    nodes: Annotated[bool, typer.Option(help="Tell silent nodes apart; needs the right to list nodes.")] = True,
    watch_s: Annotated[int, typer.Option(min=1, max=300, help="How long a watch lasts: bounds blindness.")] = 40,
    observer_id: Annotated[str | None, typer.Option("--id", help="Its name; default: made of the host's.")] = None,
) -> int:
    """Watch the pods that workspaces stand on, and report what becomes of them."""
    if not 1 <= len(scope) <= SCOPE_MAX_CHARS:
        msg = f"--scope has {len(scope)} characters"
        raise Fault(msg, f"1 to {SCOPE_MAX_CHARS} characters that name the cluster", USAGE)
    try:
        access = find_access(kubeconfig, context, SYSTEM)
    except NoAccess as error:
        raise Fault(error.message, error.remedy, USAGE) from error
    name = observer_id or f"watch-{socket.gethostname()}-{secrets.token_hex(3)}"
    pace = Pace(watch_least_s=max(1, watch_s // 2), watch_most_s=watch_s)
    plan = Plan(scope, namespace, selector, nodes, pace, name)
    making = _making(access, namespace, template, any_spec=any_spec) if provision else None
    run_async(_watch_kubernetes(place, plan, access, making))
    return 0


verb(watch, "", "kubernetes")(watch_kubernetes)


async def _watch_kubernetes(place: Place, plan: Plan, access: Access, making: Making | None) -> None:
    def serve() -> ApiServer:
        return ApiServer(access, Bounds())

    async with place.async_client(PATIENCE) as client:
        observer = Observer(client, plan, serve, _print_json if place.json else _print_line)
        if making is not None:
            observer.also.append(_provisioning(making))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, observer.stop)
        await observer.run()


def _provisioning(making: Making) -> Also:
    async def provision(observing: Observing) -> None:
        provider = KubernetesProvider(observing.server, making, wall)
        provisioner = Provisioner(provider, observing.reports, observing.clock)
        observing.view.on_change = provisioner.wake
        await provisioner.run()

    return provision


def _making(access: Access, namespace: str | None, template: Path | None, *, any_spec: bool) -> Making:
    where = namespace or access.namespace
    if where is None:
        msg = "--provision makes bodies in one namespace, and none is named"
        raise Fault(msg, "--namespace NAME", USAGE)
    return Making(where, DEFAULT_TEMPLATE if template is None else _read_template(template), any_spec)


def _read_template(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        read = jsonlib.loads(text) if path.suffix == ".json" else _yaml(text)
    except (OSError, ValueError) as error:
        msg = f"the template {path} cannot be read: {error}"
        raise Fault(msg, "a Pod or Sandbox, as YAML or JSON", USAGE) from error
    if not isinstance(read, dict):
        msg = f"the template {path} is not an object"
        raise Fault(msg, "a Pod or Sandbox, as YAML or JSON", USAGE)
    return read


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        msg = "a template in YAML needs the extra `kubernetes`, which is not installed here"
        raise Fault(msg, "write it as JSON (template.json), or pip install 'jackline-server[kubernetes]'") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _print_json(happening: str, values: Mapping[str, Any]) -> None:
    print(jsonlib.dumps({"happening": happening, **values}, ensure_ascii=False, default=str), flush=True)


def _print_line(happening: str, values: Mapping[str, Any]) -> None:
    told = "  ".join(f"{name}={safe(str(value))}" for name, value in values.items() if value is not None)
    print(f"{happening:<24} {told}", file=sys.stderr, flush=True)
