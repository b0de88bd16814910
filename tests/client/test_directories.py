"""Directories of ours: made once, known again, and destroyed without touching anything else."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jackline.worker import keeper
from jackline.workspaces import marks, removing
from jackline.workspaces.contract import NotOurs, Observation, PlaceFailed, WorkspaceRef
from jackline.workspaces.directory import DirectoryProvider, Record
from jackline.workspaces.looking import OPEN, DirectoryIdentity, Pin

pytestmark = [pytest.mark.system, pytest.mark.origin("C3", "C7", "R12")]

REF = WorkspaceRef("w1")
NOBODY = 65534
REMOVING = """
import os, sys
from pathlib import Path
from jackline.workspaces import removing
if os.getuid() == 0:
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
removing.remove(Path("own"))
"""


@pytest.fixture
async def provider(tmp_path: Path) -> DirectoryProvider:
    """A provider with one directory."""
    provider = DirectoryProvider(tmp_path / "home")
    await provider.place("w1", {"run_id": "r1"})
    return provider


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Something that is nobody's business here, and must be as it was in the end."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "precious").write_text("precious")
    yield place
    assert "precious" == (place / "precious").read_text()


def record_of(provider: DirectoryProvider) -> Record:
    record = provider.record("w1")
    assert record is not None
    return record


async def test_a_directory_is_for_its_own_user_alone_and_empty(provider: DirectoryProvider) -> None:
    assert 0o700 == provider.path("w1").stat().st_mode & 0o777
    assert [] == os.listdir(provider.path("w1"))


@pytest.mark.parametrize("workspace_id", ["../up", "a/b", "", ".", "..", ".hidden", "a\0b", "x" * 129])
async def test_a_workspace_id_that_leads_out_of_the_place_is_refused(
    provider: DirectoryProvider, workspace_id: str
) -> None:
    with pytest.raises(PlaceFailed, match="cannot be a directory's name"):
        await provider.place(workspace_id, {})
    with pytest.raises(PlaceFailed):
        await provider.teardown(WorkspaceRef(workspace_id))


async def test_a_place_that_was_deleted_is_made_again(provider: DirectoryProvider) -> None:
    shutil.rmtree(provider.root)
    await provider.place("w2", {"run_id": "r2"})

    assert "present" == (await provider.continuity(WorkspaceRef("w2"))).kind


async def test_a_placing_that_was_cut_short_before_the_mark_is_finished(provider: DirectoryProvider) -> None:
    os.removexattr(provider.path("w1"), marks.ATTRIBUTE)
    provider.note(replace(record_of(provider), identity=None))
    await provider.place("w1", {"run_id": "r1"})

    assert "present" == (await provider.continuity(REF)).kind


async def test_a_placing_that_was_cut_short_is_torn_down_all_the_same(provider: DirectoryProvider) -> None:
    os.removexattr(provider.path("w1"), marks.ATTRIBUTE)
    provider.note(replace(record_of(provider), identity=None))

    assert await provider.teardown(REF)
    assert not provider.path("w1").exists()


async def test_a_placing_takes_over_nothing_that_somebody_else_has_filled(provider: DirectoryProvider) -> None:
    os.removexattr(provider.path("w1"), marks.ATTRIBUTE)
    (provider.path("w1") / "file").touch()
    provider.note(replace(record_of(provider), identity=None))
    with pytest.raises(PlaceFailed, match="is not ours"):
        await provider.place("w1", {"run_id": "r1"})


async def test_after_another_boot_the_device_may_have_another_number(provider: DirectoryProvider) -> None:
    identity = DirectoryIdentity.of(record_of(provider).identity or "")
    assert identity is not None
    moved = str(replace(identity, device=identity.device + 1))
    provider.note(replace(record_of(provider), identity=moved))
    same_boot = await provider.continuity(REF)
    provider.note(replace(record_of(provider), boot_id="the boot before"))

    assert "replaced" == same_boot.kind
    assert "present" == (await provider.continuity(REF)).kind


async def test_a_directory_without_its_mark_is_not_the_same_after_a_restart(provider: DirectoryProvider) -> None:
    os.removexattr(provider.path("w1"), marks.ATTRIBUTE)
    seen = await provider.continuity(REF)

    assert ("replaced", "DirectoryReplaced") == (seen.kind, seen.reason)
    assert seen.message is not None
    assert "does not carry its mark" in seen.message
    with pytest.raises(NotOurs):
        await provider.teardown(REF)


async def test_without_extended_attributes_the_mark_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "setxattr")
    monkeypatch.delattr(os, "getxattr")
    provider = DirectoryProvider(tmp_path / "home")
    await provider.place("w1", {"run_id": "r1"})

    assert [marks.FILE] == os.listdir(provider.path("w1"))
    assert "present" == (await provider.continuity(REF)).kind
    assert await provider.teardown(REF)


async def test_a_mark_in_a_file_is_not_read_through_a_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / marks.FILE).symlink_to(outside / "precious")
    descriptor = os.open(tmp_path / "place", OPEN)
    with pytest.raises(OSError, match="symbolic"):
        marks.mark_of(descriptor)
    os.close(descriptor)


async def test_links_are_removed_and_never_followed(provider: DirectoryProvider, outside: Path) -> None:
    (provider.path("w1") / "link").symlink_to(outside)
    (provider.path("w1") / "deep").mkdir()
    (provider.path("w1") / "deep" / "link").symlink_to(outside / "precious")
    os.link(outside / "precious", provider.path("w1") / "hard")

    assert await provider.teardown(REF)
    assert not provider.path("w1").exists()


async def test_a_link_in_the_directorys_place_is_left_alone(provider: DirectoryProvider, outside: Path) -> None:
    provider.path("w1").rmdir()
    provider.path("w1").symlink_to(outside)
    with pytest.raises(NotOurs):
        await provider.teardown(REF)

    assert provider.path("w1").is_symlink()


def test_a_directory_that_nobody_may_enter_is_opened_up_and_nothing_outside_is(tmp_path: Path, outside: Path) -> None:
    deep = tmp_path / "own" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (tmp_path / "own" / "link").symlink_to(outside)
    outside.chmod(0o555)
    for path in (deep, deep.parent):
        path.chmod(0)
    removing.open_up(tmp_path / "own", str(deep))
    removing.open_up(tmp_path / "own", str(tmp_path / "own" / "link"))

    assert 0o700 == deep.stat().st_mode & 0o777
    assert 0o555 == outside.stat().st_mode & 0o777
    removing.remove(tmp_path / "own")
    outside.chmod(0o755)


def test_an_ordinary_user_removes_what_its_command_has_closed(tmp_path: Path) -> None:
    place = tmp_path / "place"
    deep = place / "own" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    for path in (deep, deep.parent, deep.parent.parent):
        path.chmod(0)
    # Root may enter everything: then somebody else removes. The path is relative, because the way to it is root's.
    for path in (place, place / "own", place / "own" / "a", place / "own" / "a" / "b"):
        os.chown(path, *((NOBODY, NOBODY) if os.getuid() == 0 else (os.getuid(), os.getgid())))
    subprocess.run([sys.executable, "-c", REMOVING, str(NOBODY)], cwd=place, check=True)

    assert [] == os.listdir(place)


async def test_a_directory_that_its_command_has_closed_is_opened_to_see_whether_it_is_ours(
    provider: DirectoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def denied(path: str | Path, *words: int, **named: int) -> int:
        closed = Path(path) == provider.path("w1") and provider.path("w1").stat().st_mode & 0o700 != 0o700
        if closed and not words[0] & os.O_PATH:
            # What an ordinary user is told; root may open everything.
            raise PermissionError(13, "Permission denied")
        return opened(path, *words, **named)

    provider.path("w1").chmod(0)
    monkeypatch.setattr(os, "open", denied)

    assert await provider.teardown(REF)
    assert not provider.path("w1").exists()


async def test_nothing_is_removed_while_something_is_mounted_inside(
    provider: DirectoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (provider.path("w1") / "mounted").mkdir()
    monkeypatch.setattr(removing, "mounts_below", lambda directory: [f"{directory}/mounted"])
    with pytest.raises(NotOurs, match="something is mounted at"):
        await provider.teardown(REF)

    assert (provider.path("w1") / "mounted").exists()


def test_mount_points_are_found_by_the_kernels_own_list() -> None:
    assert "/proc" in removing.mounts_below(Path("/proc"))
    assert [] == removing.mounts_below(Path("/proc/self"))


async def test_a_removal_that_was_cut_short_is_finished_at_the_next_start(provider: DirectoryProvider) -> None:
    aside = provider.root / f"{removing.GOING}w1"
    provider.path("w1").rename(aside)
    (aside / "file").touch()
    DirectoryProvider(provider.root)

    assert not aside.exists()


async def test_a_root_that_is_out_of_sight_is_no_reason_to_forget_a_directory(provider: DirectoryProvider) -> None:
    provider.root.rename(provider.root.with_name("elsewhere"))
    torn_down = await provider.teardown(REF)
    provider.root.with_name("elsewhere").rename(provider.root)

    assert not torn_down
    assert "present" == (await provider.continuity(REF)).kind


async def test_a_record_that_cannot_be_read_is_no_record(provider: DirectoryProvider) -> None:
    (provider.root / "w2.json").write_text('{"workspace_id": "w2"')
    (provider.root / "w3.json").write_text('{"workspace_id": "another", "run_id": "r", "mark": "m"}')

    assert ["w1"] == [record.workspace_id for record in provider.records()]


async def test_a_file_in_the_directorys_place_is_told_as_replaced(provider: DirectoryProvider) -> None:
    provider.path("w1").rmdir()
    provider.path("w1").write_text("a file")
    seen = provider.pin(REF)

    assert isinstance(seen, Observation)
    assert "replaced" == seen.kind


async def test_a_pin_that_was_released_sees_nothing(provider: DirectoryProvider) -> None:
    pin = provider.pin(REF)
    assert isinstance(pin, Pin)
    pin.release()

    assert "watch_dropped" == pin.look().kind


@pytest.mark.parametrize("text", ["", "dir:1:2", "dir:1:2:", "dir:x:2:m", "proc:1:2:m"])
def test_what_names_no_directory_is_no_identity(text: str) -> None:
    assert DirectoryIdentity.of(text) is None


def test_an_identity_is_read_as_it_was_written() -> None:
    identity = DirectoryIdentity(1, 2, "mark")

    assert identity == DirectoryIdentity.of(str(identity))


async def test_git_finds_an_empty_directory_and_cleaning_it_costs_nothing(provider: DirectoryProvider) -> None:
    path = provider.path("w1")
    subprocess.run(["git", "init", "-q", "."], cwd=path, check=True)
    subprocess.run(["git", "clean", "-fdxq"], cwd=path, check=True)

    assert "present" == (await provider.continuity(REF)).kind
    assert keeper.boot_id() == record_of(provider).boot_id
