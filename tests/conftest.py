"""What every test stands on: no setting from the caller's shell, and reproducible search.

The suite starts servers and workers of its own; a `JACKLINE_URL` or a key in the developer's environment would make
a test talk to something else. A shell that runs the suite in the background has it ignore SIGINT, and every process
that it starts would inherit that. Hypothesis searches without a deadline (a slow machine is not a counterexample) and
prints what reproduces a failure; `make soak` loads the profile `soak`, which searches longer.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile("suite", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("suite"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_the_shell() -> Iterator[None]:
    foreign = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("JACKLINE_")}
    yield
    os.environ.update(foreign)


@pytest.fixture(autouse=True, scope="session")
def _interruptible_though_in_the_background() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds the rooms."""
    return ROOT


@pytest.fixture(scope="session")
def jackline_script() -> Path:
    """The console script of the environment that runs the suite: the same code as the checkout's."""
    return Path(sys.executable).with_name("jackline")
