"""Services for histories of real clients: the ones of the system tests."""

from tests.system.conftest import make_quick_service, make_service, nursery, seed

__all__ = ["make_quick_service", "make_service", "nursery", "seed"]
