"""A disk that is full when the test says so, as root and as anybody else.

As root it is a small memory file system, mounted for the test: writing to it fails like on a real full disk (ENOSPC).
Where nothing may be mounted, the service's process is bounded in how large a file it may write (RLIMIT_FSIZE): writing
fails as well (EFBIG), and raising the bound of the running process frees it. Both are undone whatever happens.
"""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.serving import Service

DISK_MB = 8
LEFT_BYTES = 64 * 1024
"""What a full disk still has: enough to go on for a few appends, which then fail in their middle."""

STEP_BYTES = 16 * 1024


class SmallDisk:
    """A directory on a disk that can be filled and freed."""

    def __init__(self, place: Path, *, mounted: bool) -> None:
        self.place = place
        self.mounted = mounted

    def fill(self, service: Service) -> None:
        """Leave almost nothing; in small steps, because the service writes meanwhile and may take the rest itself."""
        if not self.mounted:
            most = max(path.stat().st_size for path in service.data_dir.glob("*.sqlite3*")) + LEFT_BYTES
            resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            return
        with (self.place / "ballast").open("wb") as ballast:
            while (more := self._free_bytes() - LEFT_BYTES) > 0:
                os.write(ballast.fileno(), bytes(min(more, STEP_BYTES)))

    def _free_bytes(self) -> int:
        stats = os.statvfs(self.place)
        return stats.f_bavail * stats.f_frsize

    def fill_to_the_brim(self, service: Service) -> None:
        """Leave nothing at all, for a service that is not running."""
        if not self.mounted:
            service.bounds = {"file_size": 4096}
            return
        with (self.place / "ballast").open("wb") as ballast:
            try:
                while True:
                    os.write(ballast.fileno(), bytes(4096))
            except OSError:
                return

    def free(self, service: Service) -> None:
        """There is room again."""
        (self.place / "ballast").unlink(missing_ok=True)
        service.bounds = {}
        if not self.mounted and service.process is not None:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(service.pid, resource.RLIMIT_FSIZE, unlimited)


@contextmanager
def small_disk(place: Path) -> Iterator[SmallDisk]:
    """A small disk at this place."""
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "jackline-test"]
    mounting = subprocess.run(["mount", *options, str(place)], capture_output=True, check=False)
    try:
        yield SmallDisk(place, mounted=mounting.returncode == 0)
    finally:
        if mounting.returncode == 0:
            subprocess.run(["umount", str(place)], check=True)
