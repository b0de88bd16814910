"""Schemathesis against a running service: every operation of its document, with keys of every role.

It runs as a program of its own, so that it shares nothing with the service or the suite. All of its checks are on, and
two of ours (`tests/attack/hooks.py`). Its cases come in four ways: every value at and beyond each bound of the
document, random valid and invalid requests, and sequences in which what one answer names is used by the next.
"""

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.hooks import CRANE, KEYS
from tests.system.serving import Service, register

ROLES = ("leader", "worker", "reader", "operator", "admin")
CHECKOUT = Path(__file__).resolve().parents[2]
STREAMED = "/v1/leaders/{leader_id}/presence"
"""Answers only events, for as long as it is open: it has tests of its own."""
REFUSED = ["2xx", "401", "403", "404", "409", "422", "428"]
"""How a request may be answered whose shape is right: what it means may still be refused, by one of these."""
GIVEN_UP_S = 6 * 3_600


@dataclass(frozen=True)
class Fuzzed:
    """What a session found."""

    code: int
    said: str
    cases: int
    operations: int
    links: int
    """How many of the links from one answer to the next request were followed."""


def keys_of(service: Service) -> dict[str, str]:
    """A fresh key for each role."""
    admin = service.caller()
    made = {role: admin.post("/v1/keys", {"name": f"any-{role}", "role": role}).ok(201)["key"] for role in ROLES}
    return {**{role: str(key) for role, key in made.items()}, "admin": service.key}


def fuzz(service: Service, document: dict[str, Any], place: Path, seed: int, examples: int) -> Fuzzed:
    """One session against this service, as its document describes it."""
    place.mkdir(parents=True, exist_ok=True)
    schema, config, report = place / "openapi.json", place / "schemathesis.toml", place / "report.ndjson"
    schema.write_text(json.dumps(linked(document)))
    register(service.caller(), CRANE, slots=10_000)
    config.write_text(_config(service.url, seed, examples))
    words = ["--config-file", str(config), "run", str(schema), "--report", "ndjson"]
    words += ["--report-ndjson-path", str(report), "--exclude-path", STREAMED, "--no-color"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("schemathesis")), *words],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), KEYS: json.dumps(keys_of(service)), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=GIVEN_UP_S,
        check=False,
    )
    said = done.stdout + done.stderr
    counts = (_count(pattern, said) for pattern in (r"(\d+) generated", r"Tested: (\d+)", r"API Links: +(\d+) covered"))
    return Fuzzed(done.returncode, said, *counts)


def _count(pattern: str, said: str) -> int:
    found = re.search(pattern, said)
    return int(found.group(1)) if found else 0


def linked(document: dict[str, Any]) -> dict[str, Any]:
    """The document, in which whatever makes something names the operations that can be asked about it.

    A name that is in an answer and in another operation's path is the link; a fence that was granted is presented.
    """
    linked = copy.deepcopy(document)
    operations = list(_operations(linked))
    for label, operation in operations:
        method = label.partition(" ")[0]
        if method in ("POST", "PUT"):
            status, answer = next(iter(operation["responses"].items()))
            given = _fields_of(linked, answer)
            answer["links"] = {
                f"{status} {other}": {"operationId": asked["operationId"], "parameters": parameters}
                for other, asked in operations
                if (parameters := _filled(other, asked, given))
            }
    return linked


def operations_of(document: dict[str, Any]) -> list[str]:
    """Method and path of every operation."""
    return [label for label, _ in _operations(document)]


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def _fields_of(document: dict[str, Any], answer: dict[str, Any]) -> set[str]:
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    return set(document["components"]["schemas"].get(name, schema).get("properties", {}))


def _filled(label: str, operation: dict[str, Any], given: set[str]) -> dict[str, str]:
    """The parameters of an operation that an answer fills; none when one of its path stays open."""
    named = set(re.findall(r"{(\w+)}", label))
    if not named & given or named - given - {"key"}:
        return {}
    filled = {f"path.{name}": f"$response.body#/{name}" for name in sorted(named & given)}
    if "fence" in given and any(one["name"] == "Jackline-Fence" for one in operation.get("parameters", ())):
        filled["header.Jackline-Fence"] = "$response.body#/fence"
    return filled


def _config(url: str, seed: int, examples: int) -> str:
    return f"""
base-url = "{url}"
hooks = "tests.attack.hooks"
seed = {seed}
continue-on-failure = true
request-timeout = 20.0
warnings = false

[generation]
mode = "all"
max-examples = {examples}
database = "none"

[checks.positive_data_acceptance]
expected-statuses = {json.dumps(REFUSED)}
"""
