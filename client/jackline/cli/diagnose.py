"""`doctor`: what is wrong here, and what to do about it.

Each check looks at one thing and says ok, note or wrong, with a remedy. Nothing is changed. Exit code 1 when anything
is wrong; notes are only notes.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

import httpx
import typer
from rich.text import Text

import jackline
from jackline.address import Address, default_data_dir, find
from jackline.cli import show
from jackline.cli.exits import DONE, FAILED
from jackline.cli.place import Place, verb
from jackline.clock import wall
from jackline.errors import JacklineError, Unknown

PANEL = "Looking after it"
DISK_WARN = 1 << 30
CLOCK_WARN_S = 5.0
COLOURS = {"ok": "green", "note": "yellow", "wrong": "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    verdict: Literal["ok", "note", "wrong"]
    found: str
    remedy: str = ""


def join(app: typer.Typer) -> None:
    """Add this verb."""
    verb(app, PANEL, "doctor")(doctor)


def doctor(place: Place) -> int:
    """Check the environment, the key, the service, its clock, the disk and the versions."""
    findings = list(examine(place))
    if place.json:
        show.print_json(findings)
    else:
        rows = ((one.check, Text(one.verdict, COLOURS[one.verdict]), one.found, one.remedy) for one in findings)
        show.table(("check", "", "found", "remedy"), rows)
    return FAILED if any(one.verdict == "wrong" for one in findings) else DONE


def examine(place: Place) -> Iterator[Finding]:
    """All checks, in the order in which they depend on one another."""
    yield _versions()
    yield _environment()
    yield from _disk(place)
    try:
        address = find(place.url, place.key, place.data_dir)
    except JacklineError as error:
        yield Finding("address", "wrong", str(error), "correct the url, or the file that holds the key")
        return
    yield Finding("address", "ok", address.url)
    yield _key_at_hand(address)
    yield from _service(place, address)


def _versions() -> Finding:
    try:
        server = metadata.version("jackline-server")
    except metadata.PackageNotFoundError:
        return Finding("versions", "ok", f"jackline {jackline.__version__}, no server distribution here")
    both = f"jackline {jackline.__version__}, jackline-server {server}"
    if server != jackline.__version__:
        return Finding("versions", "note", both, "install both at one version")
    return Finding("versions", "ok", both)


def _environment() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    names = sorted(name for name in os.environ if name.startswith("JACKLINE_"))
    told = f"Python {version}; {', '.join(names) if names else 'no JACKLINE_ variables'}"
    if sys.platform != "linux":
        return Finding(
            "environment", "note", told, "elsewhere than on Linux, processes that leave their session survive"
        )
    return Finding("environment", "ok", told)


def _disk(place: Place) -> Iterator[Finding]:
    data_dir = place.data_dir or default_data_dir(os.environ)
    there = next(path for path in (data_dir, *data_dir.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK):
        yield Finding("disk", "wrong", f"{there} is not writable", "give it to this user, or name another --data-dir")
        return
    free = shutil.disk_usage(there).free
    told = f"{free / DISK_WARN:.1f} GiB free at {there}"
    yield Finding("disk", "ok" if free > DISK_WARN else "note", told, "" if free > DISK_WARN else "free some space")
    yield from _private(data_dir)


def _private(data_dir: Path) -> Iterator[Finding]:
    key = data_dir / "admin.key"
    if key.exists() and key.stat().st_mode & 0o077:
        yield Finding("key file", "wrong", f"{key} can be read by others", f"chmod 600 {key}")


def _key_at_hand(address: Address) -> Finding:
    if address.key:
        return Finding("key", "ok", f"{len(address.key)} characters")
    return Finding("key", "wrong", "there is none", "--key, JACKLINE_KEY, or --data-dir of the service")


def _service(place: Place, address: Address) -> Iterator[Finding]:
    remedy = "start it: `jackline serve`; or name another with --url"
    try:
        with httpx.Client(base_url=address.url, timeout=3.0, trust_env=not address.loopback) as http:
            answer = http.get("/readyz")
    except httpx.HTTPError as error:
        yield Finding("service", "wrong", f"no answer from {address.url}: {str(error) or type(error).__name__}", remedy)
        return
    if answer.status_code != httpx.codes.OK:
        yield Finding(
            "service", "wrong", f"{address.url} is not ready: {show.brief(answer.text)}", "wait, then look again"
        )
        return
    yield Finding("service", "ok", f"{address.url} is ready")
    yield _clock(answer.headers.get("Date"))
    yield from _asked(place)


def _clock(date: str | None) -> Finding:
    if date is None:
        return Finding("clock", "note", "the service does not tell its time")
    off_s = abs((wall() - parsedate_to_datetime(date).astimezone(UTC)).total_seconds())
    if off_s > CLOCK_WARN_S:
        text = f"this clock and the service's are {off_s:.0f} s apart"
        return Finding("clock", "note", text, "leases do not care; instants shown will look odd: use NTP")
    return Finding("clock", "ok", f"within {CLOCK_WARN_S:.0f} s of the service's")


def _asked(place: Place) -> Iterator[Finding]:
    checks: tuple[tuple[str, Callable[[jackline.Client], Finding]], ...] = (
        ("role", lambda client: Finding("role", "ok", _who(client))),
        ("health", _health),
    )
    with place.client() as client:
        for name, check in checks:
            try:
                yield check(client)
            except Unknown as error:
                yield Finding(name, "wrong", str(error), "look at the service's own log")
            except JacklineError as error:
                yield Finding(name, "wrong", str(error), "use a key that the service knows and that may do this")


def _who(client: jackline.Client) -> str:
    who = client.whoami()
    return f"{who.principal}, role {who.role}"


def _health(client: jackline.Client) -> Finding:
    health = client.health()
    status = str(health.get("status", "?"))
    if status == "ok":
        return Finding("health", "ok", f"ok; journal {show.brief(health.get('journal'), 100)}")
    told = f"{status}; {show.brief(health.get('first_error'), 400)}"
    remedy = "docs/operations.md (What health says); GET /healthz, with the key, tells all of it"
    return Finding("health", "note" if status == "degraded" else "wrong", told, remedy)
