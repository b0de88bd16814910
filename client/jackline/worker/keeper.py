"""The keeper: a small process that stands between a worker and one run's command.

    python -I -S keeper.py CONTROL_DIR

It is the command's parent and outlives the worker, so that three things hold whatever happens to the worker:

- the exit status is always learnt (only a parent learns it) and left in `exit.json`;
- a command never acts beyond its lease: the worker writes into `trust` until when the lease may be trusted, and when
  that instant comes near and nobody has moved it, the keeper ends the command, even while the worker is frozen or
  dead;
- a command does not go on for long without its worker, where the worker said so (`worker.json`: its pid and start,
  and how many seconds it has to come back): the service has given the run away by then, or will;
- nothing is left behind: it is the subreaper of everything that the command starts, so that a process that has gone
  into a session of its own, or lost its parent, is found and ended too. If the keeper itself is killed, the kernel
  kills the command with it.

Before it starts the command it says that it is there (`keeper.json`), and looks once more whether the command is still
wanted (`spec.json`): a worker that finds no announcement takes the spec away, and then knows that nothing was started.
A start that fails says whose fault that is: the command's (`not_started`), or this machine's (`not_begun`).

SIGTERM is the order to end: SIGTERM to every process of the run, `grace_s` later (the `grace` file, else the spec)
SIGKILL. A second SIGTERM, with a shorter grace in the file, shortens it. Instants are CLOCK_BOOTTIME seconds (the
ordinary monotonic clock elsewhere), which all processes of one boot share.

Output goes straight into the files `stdout` and `stderr`, never through a pipe: what was written is there even when
nobody is reading. Only the standard library is imported, and neither the environment nor the site is looked at: this
runs in the middle of somebody else's work.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # by itself, or a shell's word for its own child
LEFTOVER_GRACE_S = 2.0  # for processes that outlive the command itself
LEFTOVER_LIMIT_S = 30.0  # what even SIGKILL does not end by then (a hung device) must not hold the report back
REPORT_TRIES = 30
# What a start fails with when the machine, not the command, is to blame.
MACHINES = (
    errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS,
)  # fmt: skip
STEP_S = 0.1  # between two looks at processes that are being ended
LONGEST_WAIT_S = 60.0
WORKER_LOOK_S = 0.25  # between two looks at whether the worker is still there


def now() -> float:
    """Seconds since boot, the same for every process."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.clock_gettime(time.CLOCK_MONOTONIC)
    )


def write(path: Path, document: Any) -> None:
    """Put a whole document in place at once, or not at all; for this user's eyes alone."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file)
    draft.replace(path)


def stat_of(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None without such a process, `OSError` if it cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def start_of(pid: int) -> str:
    """When the process started, in clock ticks since boot: with the pid, its identity; empty when nobody can tell."""
    with contextlib.suppress(OSError):
        fields = stat_of(pid)
        return fields[19] if fields else ""
    return ""


def read(path: Path) -> Any:
    """A document, or None when there is none or it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def is_running(identity: Any) -> bool:
    """Whether the process with that pid and start is there, frozen perhaps, but not a zombie.

    One that cannot be looked at is there as long as its pid is: not seeing it is no evidence of its end.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fields = stat_of(identity["pid"])
            # A main thread may end, and be a zombie, before the others do.
            if fields is None or (fields[0] in ("Z", "X") and int(fields[17]) <= 1):
                return False
            return bool(fields[19] == identity["started"])
    try:
        with contextlib.suppress(PermissionError):  # it is there, and another user's
            os.kill(identity["pid"], 0)
    except ProcessLookupError:
        return False
    return True


def boot_id() -> str:
    """Which boot of the machine this is; empty when nobody can tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def oom_kills(pid: int) -> int | None:
    """How often the kernel has killed for want of memory in the cgroup of that process; None when nobody counts."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    counts = [count for line in lines if (count := _oom_kills_of(line)) is not None]
    return sum(counts) if counts else None


def _oom_kills_of(line: str, root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The count of one cgroup: `memory.events` of the unified hierarchy, `memory.oom_control` of the older one."""
    hierarchy, controllers, path = line.split(":", 2)
    if hierarchy != "0" and "memory" not in controllers.split(","):
        return None
    where, name = (root, "memory.events") if hierarchy == "0" else (root / "memory", "memory.oom_control")
    # In a container the path may be the host's, while what is mounted is the container's own cgroup.
    for file in (where / path.strip("/") / name, where / name):
        with contextlib.suppress(OSError, ValueError, KeyError):
            words = dict(line.split() for line in file.read_text(encoding="ascii").splitlines())
            return int(words["oom_kill"])
    return None


def descendants(root: int) -> list[int]:
    """Every process below `root`, children before their own children."""
    children: dict[int, list[int]] = {}
    # Whoever has no descriptor left sees less, and must not end over it: it is about to report.
    with contextlib.suppress(OSError):
        for entry in os.listdir("/proc") if sys.platform == "linux" else ():
            fields = stat_of(int(entry)) if entry.isdigit() else None
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    level = [root]
    while level:
        level = [child for parent in level for child in children.get(parent, ())]
        found += level
    return found


def prctl(option: int, value: int) -> None:
    """Ask the kernel for something that only Linux has."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Signals:
    """Signals as something to wait for, with a bound; also where the system has no sigtimedwait."""

    def __init__(self) -> None:
        self._heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float) -> set[int]:
        """What was heard, as soon as anything is; nothing after so many seconds."""
        ready, _, _ = select.select([self._heard], [], [], seconds)
        return set(os.read(self._heard, 4096)) if ready else set()


class Keeper:
    """One command, from its start to the file that says how it ended."""

    def __init__(self, control: Path) -> None:
        self.control = control
        self.spec = json.loads((control / "spec.json").read_text(encoding="utf-8"))
        self.child: subprocess.Popen[bytes] | None = None
        self.status: int | None = None
        self.stop: str | None = None
        self.kill_at = 0.0
        self.killed = False
        self.trust = (float("inf"), 0.0)
        self.alone_since: float | None = None
        self.come_back_s: float | None = None
        self.kills = oom_kills(os.getpid())

    def run(self) -> None:
        """Start, wait, end, report."""
        self.signals = Signals()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._announce()
        failure = self._failure_to_start()
        if failure is not None:
            self._report(failure)
            return
        with contextlib.suppress(OSError):  # a full disk; that we are here is known
            self._announce()
        while self.status is None:
            self._act()
            self._wait(self._until_next())
        leftovers = self._end_leftovers()
        self._report(self._evidence() | {"leftovers": leftovers})

    def _failure_to_start(self) -> dict[str, Any] | None:
        """Start the command; the evidence that it was not started, and by whose fault, when that failed."""
        if not (self.control / "spec.json").exists():
            return {"not_begun": {"errno": None, "message": "the worker was gone before the command was started"}}
        try:
            self._start()
        except OSError as error:
            text = f"{error.strerror}: {error.filename or self.spec['command'][0]}"
            whose = "not_begun" if error.errno in MACHINES else "not_started"
            return {whose: {"errno": error.errno, "message": text}}
        except ValueError as error:  # a word that no system call takes
            return {"not_started": {"errno": None, "message": str(error)}}
        except (MemoryError, subprocess.SubprocessError) as error:
            return {"not_begun": {"errno": None, "message": f"{type(error).__name__}: {error}"}}
        return None

    def _start(self) -> None:
        parent = os.getpid()

        def in_child() -> None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        out, err = (os.open(self.control / name, flags, 0o600) for name in ("stdout", "stderr"))
        self.child = subprocess.Popen(
            self.spec["command"],
            cwd=self.spec["cwd"],
            env=self.spec["env"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=in_child,
        )
        os.close(out)
        os.close(err)

    def _announce(self) -> None:
        """Say who is here, so that a worker that starts anew finds both processes again."""
        child = self.child and {"pid": self.child.pid, "started": start_of(self.child.pid)}
        me = os.getpid()
        write(self.control / "keeper.json", {"pid": me, "started": start_of(me), "boot_id": boot_id(), "child": child})

    def _wait(self, seconds: float) -> None:
        heard = self.signals.wait(max(0.0, min(seconds, LONGEST_WAIT_S)))
        if heard - {signal.SIGCHLD}:
            self._begin_stop("asked", now() + self._grace_s())
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.child is not None and pid == self.child.pid:
                self.status = status
                self.child.returncode = os.waitstatus_to_exitcode(status)

    def _until_next(self) -> float:
        if self.stop is not None:
            return STEP_S if self.killed else self.kill_at - now()
        trusted_until, lead_s = self.trust
        longest_s = LONGEST_WAIT_S if self.come_back_s is None else WORKER_LOOK_S
        return min(trusted_until - lead_s - now(), longest_s)

    def _act(self) -> None:
        self.read_trust()
        trusted_until, lead_s = self.trust
        if self.stop is None and now() >= trusted_until - lead_s:
            self._begin_stop("distrust", trusted_until)
        if self.stop is None and self._alone_too_long():
            self._begin_stop("orphaned", min(trusted_until, now() + self._grace_s()))
        if self.stop is not None and now() >= self.kill_at:
            self.killed = True
            self._signal(signal.SIGKILL)

    def read_trust(self) -> None:
        """Take over the worker's latest word about the lease."""
        # A file that cannot be read says nothing new: the old instant stands, and comes.
        with contextlib.suppress(OSError, ValueError):
            until, lead = (self.control / "trust").read_text(encoding="ascii").split()
            self.trust = (float(until), float(lead))

    def _alone_too_long(self) -> bool:
        """Whether the worker has been gone for longer than it may."""
        said = read(self.control / "worker.json")
        worker = said if isinstance(said, dict) and isinstance(said.get("pid"), int) and "started" in said else {}
        come_back_s = worker.get("come_back_s")
        self.come_back_s = come_back_s if isinstance(come_back_s, int | float) else None
        if self.come_back_s is None or is_running(worker):
            self.alone_since = None
            return False
        self.alone_since = self.alone_since or now()
        return bool(now() >= self.alone_since + self.come_back_s)

    def _grace_s(self) -> float:
        with contextlib.suppress(OSError, ValueError):
            return float((self.control / "grace").read_text(encoding="ascii"))
        return float(self.spec["grace_s"])

    def _begin_stop(self, why: str, kill_at: float) -> None:
        if self.stop is None:
            self.stop, self.kill_at = why, kill_at
            self._signal(signal.SIGTERM)
        else:
            self.kill_at = min(self.kill_at, kill_at)

    def _signal(self, number: int) -> None:
        """To the command's group and to everything that has left it."""
        if self.child is not None and self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, number)
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != (self.child.pid if self.child else 0):
                    os.kill(pid, number)

    def _end_leftovers(self) -> int:
        """End what the command left running; how many processes that were."""
        left = len(self._leftovers())
        began_at = now()
        told = False
        while (leftovers := self._leftovers()) and now() < began_at + LEFTOVER_LIMIT_S:
            kill = self.killed or now() >= began_at + LEFTOVER_GRACE_S
            for pid in leftovers if kill or not told else ():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
            told = True
            self.signals.wait(STEP_S)
            self._reap()
        return left

    def _leftovers(self) -> list[int]:
        """Processes of the run that are still there; without /proc, the command's group as a whole."""
        if sys.platform == "linux":
            return descendants(os.getpid())
        group = self.child.pid if self.child else 0
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [-group]

    def _evidence(self) -> dict[str, Any]:
        code = os.waitstatus_to_exitcode(self.status or 0)
        exited = code >= 0
        return {
            "exit_code": code if exited else None,
            "signal": None if exited else -code,
            "stop": self.stop,
            "killed": self.killed,
            "memory_limit": code in KILLED and not self.killed and self._kernel_killed(),
        }

    def _kernel_killed(self) -> bool:
        """Whether the kernel has killed for want of memory where we and our command are, since we started."""
        kills = oom_kills(os.getpid())
        return kills is not None and self.kills is not None and kills > self.kills

    def _report(self, evidence: dict[str, Any]) -> None:
        """Leave the evidence; a full disk is waited for a while, since nobody else knows what is written here."""
        for _ in range(REPORT_TRIES - 1):
            with contextlib.suppress(OSError):
                write(self.control / "exit.json", evidence)
                return
            time.sleep(1.0)
        write(self.control / "exit.json", evidence)


if __name__ == "__main__":
    Keeper(Path(sys.argv[1])).run()
