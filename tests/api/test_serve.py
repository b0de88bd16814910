"""`jackline serve` as a process: it starts, says where it is, drains, and says in one line why it cannot start."""

import contextlib
import json
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from projections.stored.catalogue import NAMES
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

READY = "jackline ready on "


class Process:
    """One `jackline serve`, and what it says."""

    def __init__(
        self, script: Path, data_dir: Path, *options: str, file_bytes: int | None = None, **environ: str
    ) -> None:
        self.data_dir = data_dir
        self.said = data_dir.with_name(f"{data_dir.name}.said")
        with self.said.open("wb") as said:
            self.child = subprocess.Popen(
                [script, "serve", "--data-dir", str(data_dir), "--port", "0", *options],
                stderr=said,
                env={**os.environ, **environ},
                preexec_fn=None if file_bytes is None else lambda: _bound_files(file_bytes),
            )

    @property
    def words(self) -> str:
        return self.said.read_text()

    def ready(self) -> httpx.Client:
        """A client with the admin key, once the service is ready."""

        def announced() -> bool:
            assert self.child.poll() is None, self.words
            return READY in self.words

        until(announced, what="the service to be ready", within_s=20)
        url = self.words.rpartition(READY)[2].split()[0]
        key = (self.data_dir / "admin.key").read_text()
        return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"})

    def stopped(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code after this signal."""
        self.child.send_signal(number)
        return self.child.wait(BOUND_S)

    def refused(self) -> tuple[int, str]:
        """Exit code and the one line of a start that fails."""
        code = self.child.wait(BOUND_S)
        lines = self.words.splitlines()
        assert 1 == len(lines), self.words
        return code, lines[0]


@pytest.fixture
def serve(jackline_script: Path, data_dir: Path) -> Iterator[Any]:
    with contextlib.ExitStack() as ends:

        def start(*options: str, place: Path | None = None, **more: Any) -> Process:
            process = Process(jackline_script, place or data_dir / "service", *options, **more)
            ends.callback(process.child.wait, 20)
            ends.callback(process.child.kill)
            return process

        yield start


def test_the_first_start_says_where_the_admin_key_is_and_where_it_answers(serve: Any) -> None:
    process = serve()
    with process.ready() as http:
        answer = http.get("/v1/whoami").json()

    key = process.data_dir / "admin.key"
    assert "admin" == answer["role"]
    assert f"jackline wrote the admin key to {key}" in process.words
    assert f"{http.base_url}".rstrip("/") == (process.data_dir / "server.url").read_text().strip()
    assert (0o700, 0o600) == tuple(stat.S_IMODE(path.stat().st_mode) for path in (process.data_dir, key))


def test_a_later_start_goes_on_with_the_same_key_the_same_runs_and_the_port_that_was_free(serve: Any) -> None:
    first = serve()
    with first.ready() as http:
        url = http.base_url
        run_id = http.post("/v1/runs", json={}).json()["run_id"]
    first.stopped()
    second = serve()
    with second.ready() as http:
        run = http.get(f"/v1/runs/{run_id}").json()

        assert url == http.base_url
    assert "queued" == run["state"]
    assert "admin key" not in second.words


@pytest.mark.origin("D56")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_process_ends_with_nothing_lost(serve: Any, number: signal.Signals) -> None:
    process = serve()
    with process.ready() as http:
        run_id = http.post("/v1/runs", json={}).json()["run_id"]
        with http.stream("GET", f"/v1/runs/{run_id}/facts", headers={"Accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            while not next(lines).startswith("data:"):
                pass
            process.child.send_signal(number)
            rest = list(lines)

    assert 0 == process.child.wait(BOUND_S)
    assert ": the service is stopping" in rest


@pytest.mark.origin("D56")
def test_a_claim_that_waits_is_answered_when_the_service_stops(serve: Any) -> None:
    process = serve(JACKLINE_DRAIN_S="5")
    with process.ready() as http, socket.create_connection((http.base_url.host, http.base_url.port)) as line:
        http.put("/v1/workers/w1", json={})
        body = b'{"worker_id": "w1", "wait_s": 60}'
        head = f"POST /v1/claims HTTP/1.1\r\nHost: x\r\nAuthorization: {http.headers['authorization']}\r\n"
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

        def waits() -> bool:
            return http.get("/v1/workers/w1").json()["last_seen_at"] is not None

        until(waits, what="the claim to wait")
        code = process.stopped()
        answer = line.recv(65_536)

    assert 0 == code
    assert b"200 OK" in answer
    assert b'"claims":[]' in answer


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/v1/runs/{}?until=settled&wait_s=50", b"200 OK", b'"state":"queued"'),
        ("/v1/runs/{}?min_position=1000000", b"503", b'"code":"stopping"'),
        ("/v1/runs?min_position=1000000", b"503", b'"code":"stopping"'),
    ],
)
def test_a_read_that_waits_is_answered_as_soon_as_the_service_stops(
    serve: Any, path: str, status: bytes, said: bytes
) -> None:
    process = serve(JACKLINE_DRAIN_S="60")
    with process.ready() as http, socket.create_connection((http.base_url.host, http.base_url.port)) as line:
        run_id = http.post("/v1/runs", json={}).json()["run_id"]
        head = f"GET {path.format(run_id)} HTTP/1.1\r\nHost: x\r\nAuthorization: {http.headers['authorization']}\r\n"
        line.sendall(f"{head}\r\n".encode())
        for _ in range(3):
            http.get("/livez")
        code = process.stopped()
        answer = line.recv(65_536)

    assert 0 == code
    assert status in answer.partition(b"\r\n")[0]
    assert said in answer
    assert "Traceback" not in process.words


def test_a_client_that_stalls_in_the_middle_of_a_request_does_not_hold_up_the_end(serve: Any) -> None:
    process = serve(JACKLINE_DRAIN_S="0.5")
    with process.ready() as http, socket.create_connection((http.base_url.host, http.base_url.port)) as line:
        head = f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: {http.headers['authorization']}\r\n"
        line.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        http.get("/livez")

        assert 0 == process.stopped()


@pytest.mark.origin("A45")
def test_a_second_service_on_the_same_directory_is_refused_with_the_pid_of_the_first(serve: Any) -> None:
    first = serve()
    first.ready().close()
    second = serve()

    code, line = second.refused()

    assert 1 == code
    assert f"jackline: data_dir_busy: {first.data_dir} is in use by process {first.child.pid}" in line
    assert "--data-dir" in line


def test_a_second_service_on_the_same_directory_and_port_is_told_about_the_directory(serve: Any) -> None:
    first = serve()
    with first.ready() as http:
        second = serve("--port", str(http.base_url.port))

        code, line = second.refused()

    assert 1 == code
    assert f"in use by process {first.child.pid}" in line


def test_a_port_that_is_taken_is_named(serve: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, line = serve("--port", str(port)).refused()

    assert 1 == code
    assert f"jackline: address_unusable: cannot listen on 127.0.0.1:{port}" in line


def test_listening_beyond_this_machine_is_refused_unless_one_insists(serve: Any) -> None:
    code, line = serve("--host", "0.0.0.0").refused()

    assert 2 == code
    assert "0.0.0.0" in line
    assert "--insecure" in line


def test_a_setting_out_of_its_bounds_ends_the_start(serve: Any) -> None:
    code, line = serve(JACKLINE_RECONNECT_S="soon").refused()

    assert 2 == code
    assert "JACKLINE_RECONNECT_S is 'soon'" in line


def test_a_directory_that_is_a_file_is_unusable(serve: Any, data_dir: Path) -> None:
    (data_dir / "file").write_text("x")

    code, line = serve(place=data_dir / "file").refused()

    assert 1 == code
    assert str(data_dir / "file") in line


def test_a_foreign_file_in_the_journals_place_is_left_alone(serve: Any, data_dir: Path) -> None:
    journal = data_dir / "service" / "journal.sqlite3"
    journal.parent.mkdir()
    with contextlib.closing(sqlite3.connect(journal)) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
        other.commit()
    before = journal.read_bytes()

    code, line = serve().refused()

    assert 1 == code
    assert str(journal) in line
    assert before == journal.read_bytes()
    assert not (journal.parent / "admin.key").exists()


@pytest.mark.parametrize("sign", ["keys.sqlite3", "projections.sqlite3"])
def test_a_journal_that_is_gone_is_missed_and_not_begun_anew(serve: Any, sign: str) -> None:
    process = serve()
    with process.ready() as http:
        position = int(http.post("/v1/runs", json={}).headers["jackline-position"])
        http.get("/v1/runs", params={"min_position": position})
    process.stopped()
    journal = process.data_dir / "journal.sqlite3"
    for other in {"journal.sqlite3", "keys.sqlite3", "projections.sqlite3"} - {sign}:
        (process.data_dir / other).unlink()

    code, line = serve().refused()
    missed = not journal.exists()
    (process.data_dir / sign).unlink()
    with serve().ready() as http:
        anew = http.get("/v1/runs").json()["items"]

    assert (1, True, []) == (code, missed, anew)
    assert f"jackline: journal_missing: {journal} is missing, and {sign} beside it" in line
    assert "restore the journal" in line


def test_a_journal_that_was_cut_off_is_damaged_and_verify_says_so_too(
    serve: Any, data_dir: Path, jackline_script: Path
) -> None:
    process = serve()
    with process.ready() as http:
        http.post("/v1/runs/batch", json={"runs": [{"payload": "x" * 2000}] * 50})
    process.stopped()
    journal = process.data_dir / "journal.sqlite3"
    sound = _verified(jackline_script, process.data_dir)
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])

    code, line = serve().refused()
    cut = _verified(jackline_script, process.data_dir)

    assert (0, {"ok": True, "facts": 50, "first_bad_position": None, "problem": None}) == sound
    assert 1 == code
    assert str(journal) in line
    assert (1, False) == (cut[0], cut[1]["ok"])
    assert cut[1]["problem"]


@pytest.mark.origin("K12")
def test_a_full_disk_grants_and_acknowledges_nothing_more_and_loses_nothing(serve: Any) -> None:
    full = serve(file_bytes=2_000_000)
    acknowledged: list[str] = []
    with full.ready() as http:
        http.put("/v1/workers/w1", json={"slots": 10})
        for payload in ("x" * 100_000, "x"):  # the small ones leave no room for a claim either
            while (answer := http.post("/v1/runs", json={"payload": payload})).status_code == 201:
                acknowledged.append(answer.json()["run_id"])
                assert len(acknowledged) < 200, "the disk never became full"
        claim = http.post("/v1/claims", json={"worker_id": "w1"})
        shown = http.get(f"/v1/runs/{acknowledged[0]}")
        health = http.get("/healthz").json()
    full.stopped()
    freed = serve()
    with freed.ready() as http:
        states = {http.get(f"/v1/runs/{run_id}").json()["state"] for run_id in acknowledged}
        after = http.post("/v1/runs", json={}).status_code

    assert [503, 503, 200] == [answer.status_code, claim.status_code, shown.status_code]
    assert "outcome_unknown" == answer.json()["code"]
    assert "1" == answer.headers["retry-after"]
    assert "error" == health["status"]
    assert ({"queued"}, 201) == (states, after)


def test_the_journal_is_verified_beside_a_running_service(serve: Any, jackline_script: Path) -> None:
    process = serve()
    with process.ready() as http:
        http.post("/v1/runs", json={})
        code, verdict = _verified(jackline_script, process.data_dir)

    assert (0, True, 1) == (code, verdict["ok"], verdict["facts"])


def test_every_setting_is_listed_for_people_and_programs(jackline_script: Path, data_dir: Path) -> None:
    command = [str(jackline_script), "config", "--data-dir", str(data_dir)]
    listed = json.loads(subprocess.check_output([*command, "--json"], env={**os.environ, "JACKLINE_PORT": "9000"}))
    table = subprocess.check_output(command, text=True, env={**os.environ, "COLUMNS": "200"})

    assert ("9000", "environment") == (listed["JACKLINE_PORT"]["value"], listed["JACKLINE_PORT"]["source"])
    assert "option" == listed["JACKLINE_DATA_DIR"]["source"]
    assert all(name in table for name in listed)


def test_settings_on_80_columns_are_told_without_breaking_a_word(jackline_script: Path, data_dir: Path) -> None:
    command = [str(jackline_script), "config", "--data-dir", str(data_dir)]
    told = subprocess.check_output(command, text=True, env={**os.environ, "COLUMNS": "80"}).splitlines()

    assert "JACKLINE_PORT = 8321  (default; between 0 and 65535)" in [line.rstrip() for line in told]
    assert "    port to listen on; 0 takes that of the start before, else a free one" in [
        line.rstrip() for line in told
    ]


def test_read_models_are_listed_rebuilt_and_verified(serve: Any, jackline_script: Path) -> None:
    process = serve()
    with process.ready() as http:
        http.post("/v1/runs/batch", json={"runs": [{}] * 20})
    process.stopped()
    command = [str(jackline_script), "projections"]
    options = ["--data-dir", str(process.data_dir), "--json"]

    listed, rebuilt, verified = (
        json.loads(subprocess.check_output([*command, verb, *options])) for verb in ("list", "rebuild", "verify")
    )

    assert list(NAMES) == [each["name"] for each in listed] == [each["name"] for each in rebuilt]
    assert [True] * len(NAMES) == [each["ok"] for each in verified]


def test_a_read_model_that_does_not_exist_is_named(jackline_script: Path, data_dir: Path) -> None:
    command = [str(jackline_script), "projections", "rebuild", "stars", "--data-dir", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 2 == done.returncode
    assert "'stars'" in done.stderr


def _bound_files(size: int) -> None:
    """Let no file grow beyond this, as a full disk would; a write beyond is an error and not the end."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _verified(script: Path, data_dir: Path) -> tuple[int, dict[str, Any]]:
    command = [str(script), "journal", "verify", "--json", "--data-dir", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    verdict: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, verdict
