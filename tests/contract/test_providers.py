"""The contract of providers, held by a directory and by a process against the real machine."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from jackline.worker.processes import end_marked
from jackline.workspaces.contract import Provider, WorkspaceRef
from jackline.workspaces.directory import DirectoryProvider
from jackline.workspaces.process import MARK, ProcessIdentity, ProcessProvider, ended
from tests.contract.providing import Ground, ProviderContract

pytestmark = [pytest.mark.system, pytest.mark.origin("C31", "R12", "R13", "R14")]


class DirectoryGround:
    """Directories below a temporary place."""

    can_be_blinded = True

    def __init__(self, place: Path) -> None:
        self.root = place / "workspaces"
        self.provider: Provider = DirectoryProvider(self.root)

    def spec(self) -> Any:
        return {"run_id": "r1"}

    def impossible(self) -> Any:
        (self.root / "w1").write_text("somebody else's")
        return self.spec()

    def again(self) -> Provider:
        return DirectoryProvider(self.root)

    async def destroy(self, ref: WorkspaceRef) -> None:
        (self.root / ref.workspace_id).rmdir()

    async def replace(self, ref: WorkspaceRef) -> WorkspaceRef:
        path = self.root / ref.workspace_id
        path.rename(self.root / "aside")
        path.mkdir()
        return ref

    async def foreign(self, workspace_id: str) -> WorkspaceRef:
        path = self.root / workspace_id
        path.mkdir()
        (path / "precious").write_text("not ours")
        seen = path.stat()
        return WorkspaceRef(workspace_id, f"dir:{seen.st_dev}:{seen.st_ino}:0123")

    async def exists(self, ref: WorkspaceRef) -> bool:
        return (self.root / ref.workspace_id).exists()

    async def blind(self) -> None:
        self.root.rename(self.root.with_name("elsewhere"))

    async def sight(self) -> None:
        self.root.with_name("elsewhere").rename(self.root)


class ProcessGround:
    """Processes of this machine. That of one's own user can always be seen, so there is no blinding it."""

    can_be_blinded = False

    def __init__(self) -> None:
        self._begun = ProcessProvider(grace_s=0.5)
        self.provider: Provider = self._begun
        self.strangers: list[subprocess.Popen[bytes]] = []

    def spec(self) -> Any:
        return {"command": ["sleep", "60"]}

    def impossible(self) -> Any:
        return {"command": ["/no/such/program"]}

    def again(self) -> Provider:
        return ProcessProvider(grace_s=0.5)

    async def destroy(self, ref: WorkspaceRef) -> None:
        identity = identity_of(ref)
        os.kill(identity.pid, signal.SIGKILL)
        await ended(identity)

    async def replace(self, ref: WorkspaceRef) -> WorkspaceRef:
        # The same pid with another start: what a pid that was given away again looks like.
        identity = identity_of(ref)
        other = ProcessIdentity(identity.pid, str(int(identity.started) - 1), identity.boot_id)
        return WorkspaceRef(ref.workspace_id, str(other))

    async def foreign(self, workspace_id: str) -> WorkspaceRef:
        self.strangers.append(subprocess.Popen(["sleep", "60"]))
        return WorkspaceRef(workspace_id, str(ProcessIdentity.at(self.strangers[-1].pid)))

    async def exists(self, ref: WorkspaceRef) -> bool:
        identity = identity_of(ref)
        return psutil.pid_exists(identity.pid) and psutil.Process(identity.pid).status() != psutil.STATUS_ZOMBIE

    async def blind(self) -> None:
        raise AssertionError

    async def sight(self) -> None:
        raise AssertionError

    async def close(self) -> None:
        for workspace_id in ("w1", "w2"):
            end_marked(MARK, workspace_id)
        for process in (*self.strangers, *(child.process for child in self._begun._children.values())):
            process.kill()
            process.wait()


def identity_of(ref: WorkspaceRef) -> ProcessIdentity:
    identity = ProcessIdentity.of(ref.identity or "")
    assert identity is not None
    return identity


class TestDirectories(ProviderContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> Ground:
        return DirectoryGround(tmp_path)


class TestProcesses(ProviderContract):
    @pytest.fixture
    async def ground(self) -> AsyncIterator[Ground]:
        ground = ProcessGround()
        yield ground
        await ground.close()
