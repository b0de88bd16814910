"""Attacks on the service: booted in process where that shows everything, a process of its own where memory counts."""

from tests.api.conftest import data_dir, service
from tests.system.conftest import make_service, seed, shared

__all__ = ["data_dir", "make_service", "seed", "service", "shared"]
