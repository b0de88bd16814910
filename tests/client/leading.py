"""A `jackline run` or `attach` under test: a leader of its own, in a process and a session of its own."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

from jackline.worker.environment import MARK
from jackline.worker.processes import marked
from tests.client.serving import Service, WorkerProcess, bare_environment
from tests.waiting import BOUND_S, until

# Says that it has begun, and ends by itself when it is allowed to, or politely when it is asked to.
PATIENT = 'echo begun; while [ ! -e "$0" ]; do sleep 0.05; done; echo over'
# The same, but deaf to the order to end.
DEAF = f"trap '' TERM; {PATIENT}"


class Led:
    """One command line that leads a run; its output is kept in files."""

    def __init__(self, service: Service, place: Path, *words: str, terminal: bool = False) -> None:
        place.mkdir(exist_ok=True)
        number = len(list(place.glob("*.out")))
        self._out, self._err = place / f"{number}.out", place / f"{number}.err"
        self._master: int | None = None
        command = [str(service.script), *words]
        environment = bare_environment() | {"JACKLINE_DATA_DIR": str(service.data_dir)}
        slave: int | None = None
        if terminal:
            self._master, slave = pty.openpty()
            command = ["setsid", "--ctty", *command]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL if slave is None else slave,
                stdout=out,
                stderr=err,
                start_new_session=not terminal,
            )
        if slave is not None:
            os.close(slave)

    @property
    def said(self) -> str:
        """What it has told on standard error."""
        return self._err.read_text()

    @property
    def output(self) -> str:
        """What it has printed on standard output."""
        return self._out.read_text()

    def run_id(self) -> str:
        """The run that it leads, once it has begun."""
        found = until(self._leads, what="a run is led", within_s=20)
        until(lambda: "begun" in self.output, what=f"the run's command has begun:\n{self.said}", within_s=20)
        return found.group(1)

    def _leads(self) -> re.Match[str] | None:
        found = re.search(r"run (\S+) (?:submitted|is led)", self.said)
        assert found or self.process.poll() is None, self.said
        return found

    def says(self, text: str) -> None:
        """Wait until it has told this."""
        until(lambda: text in self.said, what=f"it says {text!r}", within_s=20)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, and nobody else."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def close_terminal(self) -> None:
        """Close the terminal that it has been started in."""
        assert self._master is not None
        os.close(self._master)
        self._master = None

    def ended(self, within_s: float = BOUND_S) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout=within_s)

    def close(self) -> None:
        """Whatever it takes."""
        if self._master is not None:
            os.close(self._master)
        if self.process.poll() is None:
            self.kill()


def commands_of(hand: WorkerProcess) -> list[int]:
    """The processes of everything that this worker executes now."""
    controls = [str(path) for path in (hand.home / "attempts").glob("*")]
    return [process.pid for control in controls for process in marked(MARK, control)]
