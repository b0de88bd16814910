"""What the command line says when something is wrong, and how it explains itself, against a real service."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jackline import Client
from jackline.cli.main import MODULES, app
from tests.client.serving import Say, Service, bare_environment, free_port, one_line
from tests.waiting import BOUND_S

pytestmark = pytest.mark.system


def test_the_doctor_finds_a_healthy_service_healthy(say: Say) -> None:
    said = say("doctor", "--json")
    verdicts = {one["check"]: one["verdict"] for one in json.loads(said.stdout)}

    assert 0 == said.returncode, said.stdout
    assert "wrong" not in verdicts.values()
    assert {"versions", "environment", "disk", "key", "service", "clock", "role", "health"} <= set(verdicts)


def test_the_doctor_says_what_is_wrong_and_what_to_do(say: Say, tmp_path: Path) -> None:
    said = say("doctor", "--url", f"http://127.0.0.1:{free_port()}", data_dir=tmp_path)

    assert 1 == said.returncode
    assert "jackline serve" in said.stdout
    assert "--key" in said.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["show", "no-such-run"], 5, "run_unknown"),
        (["answer", "no-such-run", "1"], 5, "run_unknown"),
        (["lss"], 2, "No such command"),
        (["ls", "--limit", "0"], 2, "--limit"),
        (["show"], 2, "Missing argument"),
        (["submit"], 2, "there is no command"),
        (["submit", "--payload", "{", "true"], 2, "not JSON"),
        (["submit", "--payload", "@/no/such/file", "true"], 2, "cannot be read"),
        (["submit", "--tag", "novalue", "true"], 2, "K=V"),
        (["submit", "--queue", "", "true"], 3, "invalid"),
        (["ls", "--key", "wrong"], 6, "unauthenticated"),
        (["ls", "--url", "nonsense"], 2, "not an http"),
        (["park", "--wait"], 2, "--keep-lease"),
        (["partial", "get"], 2, "not inside a run"),
        (["effect", "reconcile", "mail", "--run", "nope"], 2, "--not-done if it certainly did not"),
        (["ls", "--tag", "foo"], 2, "--tag 'foo' is not of the form K=V"),
        (["workspaces", "--run", "nope"], 5, "run_unknown"),
        (["workspaces", "--run", "nope", "--all"], 5, "run_unknown"),
        (["work", "--id", "../up"], 2, "directory's name"),
        (["verdict", "no-such-run", "perhaps"], 3, "verdict"),
    ],
)
def test_an_error_is_one_line_with_its_values_and_a_documented_exit_code(
    say: Say, words: list[str], code: int, says: str
) -> None:
    said = say(*words)

    assert code == said.returncode, said.stderr
    assert says in one_line(said)


def test_what_is_not_there_is_not_looked_for_among_the_runs(say: Say, client: Client, queue: str) -> None:
    client.register_worker("ledger", slots=9)
    run_id = client.submit(queue=queue).run_id
    fence = client.claim("ledger", [queue])[0].fence
    inside = bare_environment() | {"JACKLINE_RUN_ID": run_id, "JACKLINE_FENCE": str(fence)}
    inside |= {"JACKLINE_URL": client.url, "JACKLINE_KEY": str(client.transport.address.key)}
    key, effect = say("keys", "revoke", "nope"), say("effect", "complete", "nosuch", env=inside)
    run = say("show", "nope")

    assert [5, 5, 5] == [one.returncode for one in (key, effect, run)]
    assert "`jackline keys list`" in one_line(key)
    assert "claim it first" in one_line(effect)
    assert "`jackline ls`" in one_line(run)
    assert "`jackline ls`" not in key.stderr + effect.stderr


def test_without_a_key_it_is_told_where_one_was_looked_for(say: Say, tmp_path: Path) -> None:
    said = say("ls", data_dir=tmp_path)

    assert 6 == said.returncode
    assert f"JACKLINE_KEY_FILE, and there is no {tmp_path}/admin.key" in one_line(said)


def test_nobody_at_the_door_is_unknown_and_not_a_no(say: Say) -> None:
    said = say("submit", "--url", f"http://127.0.0.1:{free_port()}", "--key", "k", "--", "true")

    assert 4 == said.returncode
    assert "no answer" in one_line(said)


def test_a_reader_that_goes_away_is_no_error(shared: Service) -> None:
    command = f"{shared.script} --help | head -1"
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=BOUND_S, check=False)

    assert "Traceback" not in said.stderr


def test_every_verb_explains_itself() -> None:
    overview = CliRunner().invoke(app, ["--help"])
    verbs = [verb for module in MODULES.values() for verb in module]
    unexplained = [
        verb
        for verb in verbs
        if f" {verb} " not in overview.output or not explained(CliRunner().invoke(app, [verb, "--help"]), verb)
    ]

    assert [] == unexplained


def explained(helped: Result, verb: str) -> bool:
    return 0 == helped.exit_code and f"jackline {verb} " in helped.output
