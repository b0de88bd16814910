"""The process between a worker and a command: it learns the exit, polices the lease, and leaves nothing behind."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from jackline.worker import keeper
from jackline.worker.environment import MARK
from jackline.worker.keeper import Keeper, read
from jackline.worker.places import Attempt, Home
from jackline.worker.processes import Identity, marked
from jackline.worker.starting import NotBegun, never_began, rehearse, withhold
from tests.client.keeping import Kept
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("A33", "A46")]

Keep = Callable[..., Kept]

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"
# A grandchild in a session of its own, whose parent has gone: no group and no parent leads to it any more.
RUNAWAY = (
    "setsid sh -c 'trap \"\" TERM; echo $$ > runaway.pid; exec sleep 300' & "
    "while [ ! -s runaway.pid ]; do sleep 0.02; done; echo up"
)


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    kept: list[Kept] = []

    def start(*command: str, grace_s: float = 5.0) -> Kept:
        kept.append(Kept(tmp_path, command, grace_s=grace_s))
        return kept[-1].start()

    yield start
    for one in kept:
        one.close()


def pids_of(kept: Kept) -> list[int]:
    return [process.pid for process in marked(MARK, str(kept.control))]


def test_an_exit_code_is_learnt(keep: Keep) -> None:
    evidence = keep("sh", "-c", "exit 7").ended()

    assert (7, None, None) == (evidence["exit_code"], evidence["signal"], evidence["stop"])


def test_a_signal_is_told_from_an_exit_code(keep: Keep) -> None:
    evidence = keep("sh", "-c", "kill -KILL $$").ended()

    assert (None, signal.SIGKILL) == (evidence["exit_code"], evidence["signal"])


@pytest.mark.parametrize(("command", "says"), [("no-such-command-here", "No such file"), ("/etc/passwd", "Permission")])
def test_a_command_that_cannot_be_started_is_evidence_too(keep: Keep, command: str, says: str) -> None:
    evidence = keep(command).ended()

    assert says in evidence["not_started"]["message"]
    assert command in evidence["not_started"]["message"]


@pytest.mark.parametrize(("number", "whose"), [(errno.ENOSPC, "not_begun"), (errno.ENOENT, "not_started")])
def test_a_start_that_fails_says_whether_the_machine_or_the_command_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, whose: str
) -> None:
    kept = Kept(tmp_path, ["true"])
    one = Keeper(kept.control)

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(one, "_start", fail)

    assert {whose: {"errno": number, "message": f"{os.strerror(number)}: true"}} == one._failure_to_start()


def test_a_command_that_is_not_wanted_any_more_is_not_started(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ["true"])
    one = Keeper(kept.control)
    withhold(Attempt(kept.control))

    assert "not_begun" in (one._failure_to_start() or {})
    assert "" == kept.output()


def test_a_keeper_that_cannot_say_that_it_is_there_starts_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ["touch", str(tmp_path / "started")])
    (kept.control / "keeper.json").mkdir()
    kept.start()
    assert kept.process is not None
    kept.process.wait(timeout=20)
    (kept.control / "keeper.json").rmdir()

    assert never_began(Attempt(kept.control)) is not None
    assert not (tmp_path / "started").exists()


def test_a_keeper_that_was_killed_before_it_said_how_the_command_ended_may_have_started_it(keep: Keep) -> None:
    kept = keep("sleep", "300")
    until(lambda: (kept.control / "keeper.json").exists(), what="the keeper has said that it is there")
    assert kept.process is not None
    kept.process.kill()
    kept.process.wait()

    assert never_began(Attempt(kept.control)) is None


def test_an_attempt_that_was_cut_off_before_its_keeper_was_started_never_began(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ["true"])

    assert "cut off before" in (never_began(Attempt(kept.control)) or "")
    assert not (kept.control / "spec.json").exists(), "a keeper that comes now must find nothing to start"


async def test_a_rehearsal_starts_a_keeper_for_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    await rehearse(home)
    (home.path / "bin" / "keeper.py").write_text("raise SystemExit('no keeper here')")
    with pytest.raises(NotBegun, match="no keeper here"):
        await rehearse(home)
    home.close()

    assert not (home.path / "rehearsal").exists()


def test_a_worker_starts_the_keeper_that_it_came_with_when_the_package_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(keeper.__file__).read_bytes()
    monkeypatch.setattr(keeper, "__file__", str(tmp_path / "gone.py"))
    home = Home(tmp_path / "home")
    script = home.keeper()
    script.unlink()
    home.close()

    assert source == home.keeper().read_bytes()


def test_output_of_both_streams_is_in_its_own_file(keep: Keep) -> None:
    kept = keep("sh", "-c", "echo out; echo err >&2")
    kept.ended()

    assert ("out\n", "err\n") == (kept.output(), kept.output("stderr"))


def test_the_command_starts_with_no_signal_blocked_and_no_standard_input(keep: Keep) -> None:
    kept = keep("sh", "-c", "grep SigBlk /proc/self/status; cat")
    kept.ended()

    assert "SigBlk:\t0000000000000000\n" == kept.output()


def test_an_order_to_end_is_a_sigterm_that_the_command_may_answer(keep: Keep) -> None:
    kept = keep("sh", "-c", "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    kept.says("up")
    assert kept.process is not None
    kept.process.send_signal(signal.SIGTERM)

    evidence = kept.ended()

    assert (3, "asked", False) == (evidence["exit_code"], evidence["stop"], evidence["killed"])
    assert "saved" in kept.output()


def test_a_command_that_ignores_the_order_is_killed_after_its_grace(keep: Keep) -> None:
    kept = keep("sh", "-c", STUBBORN, grace_s=0.3)
    kept.says("up")
    assert kept.process is not None
    kept.process.send_signal(signal.SIGTERM)

    evidence = kept.ended()

    assert (signal.SIGKILL, True) == (evidence["signal"], evidence["killed"])


def test_a_second_order_shortens_the_grace(keep: Keep) -> None:
    kept = keep("sh", "-c", STUBBORN, grace_s=600)
    kept.says("up")
    assert kept.process is not None
    kept.process.send_signal(signal.SIGTERM)
    (kept.control / "grace").write_text("0")
    kept.process.send_signal(signal.SIGTERM)

    assert kept.ended()["killed"]


@pytest.mark.origin("K4")
def test_a_command_does_not_outlive_the_trust_in_its_lease_although_nobody_says_so(keep: Keep) -> None:
    kept = keep("sh", "-c", STUBBORN)
    kept.says("up")
    kept.trust(0.4, lead_s=0.2)
    os.kill(kept.process.pid if kept.process else 0, signal.SIGCHLD)

    evidence = kept.ended()

    assert ("distrust", True) == (evidence["stop"], evidence["killed"])


def test_a_renewal_in_the_last_moment_keeps_the_command(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done; exit 0")
    kept.says("up")
    kept.trust(0.3)
    os.kill(kept.process.pid if kept.process else 0, signal.SIGCHLD)
    kept.trust(60.0)
    (tmp_path / "go").touch()

    assert (0, None) == (kept.ended()["exit_code"], kept.ended()["stop"])


def test_a_trust_that_cannot_be_read_leaves_the_old_instant_standing(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ["true"])
    mind = Keeper(kept.control)
    mind.read_trust()
    before = mind.trust
    (kept.control / "trust").write_text("nonsense")
    mind.read_trust()

    assert before == mind.trust
    assert before[0] < float("inf")


def test_a_grandchild_in_a_session_of_its_own_is_ended_with_the_command(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sh", "-c", RUNAWAY)

    evidence = kept.ended()

    assert 1 == evidence["leftovers"]
    assert not psutil.pid_exists(int((tmp_path / "runaway.pid").read_text()))
    assert [] == pids_of(kept)


def test_a_background_process_that_ignores_the_order_is_killed_too(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sh", "-c", f"{RUNAWAY}; while :; do sleep 0.05; done", grace_s=0.3)
    kept.says("up")
    assert kept.process is not None
    kept.process.send_signal(signal.SIGTERM)
    kept.ended()

    assert [] == pids_of(kept)


def test_a_killed_keeper_takes_its_command_with_it(keep: Keep) -> None:
    kept = keep("sh", "-c", "echo up; exec sleep 300")
    kept.says("up")
    assert kept.process is not None
    kept.process.kill()
    kept.process.wait()

    until(lambda: not pids_of(kept), what="the command is gone")
    assert not (kept.control / "exit.json").exists()


def dead() -> Identity:
    """A process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return Identity(process.pid, "1")


def test_a_command_whose_worker_does_not_come_back_is_ended(keep: Keep) -> None:
    kept = keep("sh", "-c", "echo up; exec sleep 300")
    kept.says("up")
    kept.worker(dead(), 0.1)
    os.kill(kept.process.pid if kept.process else 0, signal.SIGCHLD)

    assert "orphaned" == kept.ended()["stop"]


def test_a_command_goes_on_for_a_worker_that_comes_back_in_time(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done")
    kept.says("up")
    kept.worker(dead(), 0.5)
    os.kill(kept.process.pid if kept.process else 0, signal.SIGCHLD)
    kept.worker(Identity.mine(), 0.5)
    (tmp_path / "go").touch()

    assert (0, None) == (kept.ended()["exit_code"], kept.ended()["stop"])


def test_a_command_whose_worker_has_the_full_ttl_to_come_back_goes_on_without_it(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done")
    kept.says("up")
    kept.worker(dead(), None)
    os.kill(kept.process.pid if kept.process else 0, signal.SIGCHLD)
    (tmp_path / "go").touch()

    assert (0, None) == (kept.ended()["exit_code"], kept.ended()["stop"])


def test_keeper_and_command_can_be_found_again_by_pid_and_start(keep: Keep) -> None:
    kept = keep("sh", "-c", "echo up; exec sleep 300")
    kept.says("up")
    until(lambda: read(kept.control / "keeper.json")["child"], what="the keeper says who its child is")
    document = read(kept.control / "keeper.json")
    found, child = Identity.of(document), Identity.of(document["child"])

    assert found is not None
    assert child is not None
    assert (True, True) == (found.alive, child.alive)
    assert not Identity(found.pid, "1").alive
    assert document["boot_id"]
