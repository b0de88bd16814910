"""The journal's tools as processes: beside a service that records, killed with -9, on a full disk, and back again.

Whatever happens to a tool, the journal is as it was, its target is there whole or not at all, and asking again works.
"""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from domain.values import Moment
from journal.backups import back_up
from journal.commit import Context, Decision, Entry
from journal.exporting import Range, export_lines
from journal.opening import JOURNAL_NAME, open_journal
from tests.journal.filled import read, released, unreported
from tests.journal.filled import verified as checked
from tests.journal.releases import LIVES, truthful
from tests.projections.acts import Story
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.load import Crowd
from tests.system.nursery import bound
from tests.system.serving import Service, cli, one_line, submit
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

RUNS = 200
RUNS_AT_ONCE = 100
CLIENTS = 2
LIFE = LIVES[0]
TRIES = 5


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data dir with a closed journal of some thousand facts, all of runs that have settled."""
    place = tmp_path_factory.mktemp("long") / "data"
    asyncio.run(_fill(place))
    return place


async def _fill(place: Path) -> None:
    numbers = iter(range(10**9))
    clock = Moment(datetime(2026, 1, 1, tzinfo=UTC), 0.0)
    journal = await open_journal(place, lambda: clock, mint=lambda: f"id-{next(numbers):08d}")
    for start in range(0, RUNS, RUNS_AT_ONCE):
        entries: list[Entry] = []
        for number in range(start, start + RUNS_AT_ONCE):
            story = Story(f"{number:032x}")
            for act in LIFE:
                story.then(act)
            entries += [Entry(told.stream, truthful(told.fact, story.run_id), story.run_id) for told in story.facts]
        decision = Decision(entries, {entry.stream: 0 for entry in entries}, None)
        await journal.execute((), lambda _, d=decision: d, Context("default", "test"), encode=_none, decode=_none)  # type: ignore[misc]
    await journal.close()


def _none(_: Any) -> Any:
    return b""


def tool(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """A finished call of a verb of `jackline journal` on the service's data dir."""
    return service.run_cli("journal", *words, "--data-dir", str(service.data_dir))


def answered(service: Service, *words: str) -> Any:
    """The JSON that such a call printed, once it was done."""
    done = tool(service, *words, "--json")
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def test_every_tool_that_reads_works_while_a_service_records(make_service: Serving, tmp_path: Path) -> None:
    service = make_service().start()
    crowd = Crowd(service.port, service.key, CLIENTS, seed=1)
    crowd.start()
    try:
        until(lambda: crowd.promised >= 30, what="some load")
        assert verified(service)["ok"]
        assert 0 < answered(service, "stats")["facts"]
        assert 0 < answered(service, "backup", str(tmp_path / "backup"))["facts"]
        assert 0 < answered(service, "export", str(tmp_path / "jsonl"))["facts"]
        seen = tool(service, "tail", "--after", "0", "--limit", "20", "--json").stdout.splitlines()
        assert list(range(1, 21)) == [json.loads(line)["position"] for line in seen]
        crowd.check_alive()
    except BaseException:
        crowd.abandon()
        raise
    crowd.stop()

    health = service.caller().get("/healthz").ok()
    assert "ok" == health["status"]
    restored = make_service(tmp_path / "restored")
    found = answered(restored, "restore", str(tmp_path / "backup"))
    caller = restored.start().caller(service.key)
    again = caller.get("/healthz").ok()["journal"]
    assert found["epoch"] == again["epoch"] != health["journal"]["epoch"]
    assert 0 == restored.run_cli("projections", "verify", "--data-dir", str(restored.data_dir)).returncode
    imported = make_service(tmp_path / "imported")
    assert answered(imported, "import", str(tmp_path / "jsonl"))["facts"] >= found["facts"]
    assert checked(imported.data_dir).ok
    assert not (imported.data_dir / "keys.sqlite3").exists()


def test_what_came_after_the_backup_is_gone_from_every_answer_after_a_restore(
    make_service: Serving, tmp_path: Path
) -> None:
    service = make_service().start()
    caller = service.caller()
    kept = submit(caller, name="kept")
    assert 0 == tool(service, "backup", str(tmp_path / "backup")).returncode
    lost = [submit(caller, name="lost") for _ in range(3)]
    last = caller.get("/v1/journal?limit=1").ok()
    assert 4 == len(caller.get(f"/v1/runs?min_position={last['position']}").ok()["items"])
    assert 0 == service.terminate()
    for file in service.data_dir.glob(f"{JOURNAL_NAME}*"):
        file.unlink()

    assert 0 == tool(service, "restore", str(tmp_path / "backup")).returncode
    caller = service.start().caller()

    first = caller.get("/v1/journal?limit=1").ok()
    assert first["epoch"] != last["epoch"]
    assert first["position"] < last["position"]
    assert {kept} == {item["run_id"] for item in caller.get("/v1/runs?min_position=1").ok()["items"]}
    assert [404] * 3 == [caller.get(f"/v1/runs/{run_id}").status for run_id in lost]
    caller.get(f"/v1/journal?after={last['position']}").refused(422, "position_beyond")
    again = submit(caller, name="again")
    assert {kept, again} == {item["run_id"] for item in caller.get("/v1/runs?min_position=2").ok()["items"]}


def test_a_tail_goes_on_with_what_is_recorded(make_service: Serving) -> None:
    service = make_service().start()
    submit(service.caller(), name="first")
    command = [str(service.script), "journal", "tail", "--after", "0", "--json", "--data-dir", str(service.data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            assert b"first" in following.stdout.readline().encode()
            submit(service.caller(), name="second")
            assert "second" in following.stdout.readline()
        finally:
            following.send_signal(signal.SIGINT)
        assert 130 == following.wait(BOUND_S)


def test_a_directory_that_is_served_is_neither_archived_nor_replaced(make_service: Serving, tmp_path: Path) -> None:
    service = make_service().start()
    submit(service.caller())
    with read(service.data_dir) as store, (tmp_path / "all.jsonl").open("wb") as out:
        export_lines(store, Range(), out, unreported)
    back_up(service.data_dir, tmp_path / "backup", datetime(2026, 1, 1, tzinfo=UTC), unreported)

    for words in (["archive", "--older-than", "0"], ["import", "all.jsonl"], ["restore", "backup"]):
        verb, *rest = words
        done = tool(service, verb, *(str(tmp_path / word) if verb != "archive" else word for word in rest))
        assert 1 == done.returncode
        assert f"data_dir_busy: {service.data_dir} is in use by process {service.pid}" in one_line(done.stderr)


def sound(service: Service) -> bool:
    """Whether the whole journal of the long data dir is there and verified."""
    verdict = checked(service.data_dir)
    return (verdict.ok, verdict.facts) == (True, RUNS * 7)


def killed_when(service: Service, words: list[str], seen: Callable[[], bool]) -> bool:
    """Start a tool, and kill it with -9 once this can be seen; whether it was killed before it was done."""
    command = [str(service.script), "journal", *words, "--data-dir", str(service.data_dir)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: seen() or process.poll() is not None, what="the tool to be in the middle of it")
        process.kill()
        return process.wait() == -signal.SIGKILL


def killed_in_the_middle(service: Service, words: list[str], *, partial: Path, target: Path) -> None:
    """Kill a tool before its target is there, in a few tries; whatever is there earlier must be whole."""
    for _ in range(TRIES):
        if killed_when(service, words, partial.exists) and not target.exists():
            return
        assert whole(target)
        target.unlink()
    message = f"the tool was done {TRIES} times before it could be killed"
    raise AssertionError(message)


def whole(target: Path) -> bool:
    """Whether a journal, a backup or an export is all there."""
    content = target.read_bytes()
    if content.startswith(b"SQLite"):
        verdict = checked(target.parent, target.name)
        return (verdict.ok, verdict.facts) == (True, RUNS * 7)
    return content.count(b'"position":') == RUNS * 7 and b"jackline.end.v1" in content[-500:]


@pytest.mark.parametrize("verb", ["backup", "export"])
def test_a_killed_tool_leaves_no_target_and_can_be_asked_again(
    verb: str, long: Path, make_service: Serving, tmp_path: Path
) -> None:
    service = make_service(shutil.copytree(long, tmp_path / "data"))
    target, partial = tmp_path / "target", tmp_path / "target.partial"

    killed_in_the_middle(service, [verb, str(target)], partial=partial, target=target)

    assert sound(service)
    assert RUNS * 7 == answered(service, verb, str(target))["facts"]
    assert whole(target)
    assert not partial.exists()


@pytest.mark.parametrize("verb", ["import", "restore"])
def test_a_killed_import_or_restore_leaves_no_journal_and_can_be_asked_again(
    verb: str, long: Path, make_service: Serving, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    made = "export" if verb == "import" else "backup"
    assert 0 == cli(make_service().script, "journal", made, str(source), "--data-dir", str(long)).returncode
    service = make_service(tmp_path / "there")
    target = service.data_dir / JOURNAL_NAME

    killed_in_the_middle(service, [verb, str(source)], partial=Path(f"{target}.new"), target=target)

    assert RUNS * 7 == answered(service, verb, str(source))["facts"]
    assert sound(service)
    assert [] == [path.name for path in service.data_dir.iterdir() if ".new" in path.name]


@pytest.mark.parametrize("seen", ["archive.partial", "*.facts"])
def test_a_killed_archive_loses_no_fact_and_can_be_asked_again(
    seen: str, long: Path, make_service: Serving, tmp_path: Path
) -> None:
    service = make_service(shutil.copytree(long, tmp_path / "data"))
    killed_when(service, ["archive", "--older-than", "0"], lambda: any((service.data_dir / "archive").glob(seen)))

    assert sound(service)
    answered(service, "archive", "--older-than", "0", "--compact")
    with read(service.data_dir) as store:
        assert [(RUNS * 7,)] == store.datastore.read("SELECT sum(facts) FROM archives")
    assert sound(service)


def test_an_archived_run_is_shown_explained_and_listed_like_any_other(
    long: Path, make_service: Serving, tmp_path: Path
) -> None:
    service = make_service(shutil.copytree(long, tmp_path / "data"))
    before = _shown(service.start())
    assert 0 == service.terminate()

    answered(service, "archive", "--older-than", "1", "--compact")
    for derived in service.data_dir.glob("projections*"):
        derived.unlink()

    assert before == _shown(service.start())
    assert 0 == service.run_cli("projections", "verify", "--data-dir", str(service.data_dir)).returncode


def _shown(service: Service) -> list[Any]:
    caller, run_id = service.caller(), f"{RUNS // 2:032x}"
    paths = (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/why", f"/v1/runs/{run_id}/facts")
    listed = f"/v1/runs?limit=500&min_position={RUNS * 7}"
    return [caller.get(path).ok() for path in (*paths, listed)]


@pytest.mark.parametrize("verb", ["backup", "export"])
def test_a_full_disk_leaves_no_target(verb: str, long: Path, make_service: Serving, tmp_path: Path) -> None:
    service = make_service(shutil.copytree(long, tmp_path / "data"))
    target = tmp_path / "target"

    done = subprocess.run(
        [str(service.script), "journal", verb, str(target), "--data-dir", str(service.data_dir)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        preexec_fn=lambda: bound("file_size", 512 * 1024),
    )

    assert 1 == done.returncode
    assert f"target_full: {target} could not be written whole: the disk is full" in one_line(done.stderr)
    assert [] == [path.name for path in tmp_path.iterdir() if path.name.startswith("target")]
    assert sound(service)


def test_the_journal_of_an_earlier_release_is_served_and_its_read_models_are_right(
    make_service: Serving, tmp_path: Path
) -> None:
    service = make_service(released(tmp_path / "data")).start()
    caller = service.caller()

    shown, after = [], 0
    while after is not None:
        page = caller.get(f"/v1/journal?after={after}&limit=20").ok()
        shown += page["facts"]
        after = page["next_after"]

    assert list(range(1, len(shown) + 1)) == [fact["position"] for fact in shown]
    assert checked(service.data_dir).ok
    assert 9 == len(caller.get("/v1/runs").ok()["items"])
    assert 0 == service.run_cli("projections", "verify", "--data-dir", str(service.data_dir)).returncode
