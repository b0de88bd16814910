"""The contract that every provider of workspaces keeps, as tests to derive from.

A backend joins by a `Ground`: the provider under test, and what can happen to its bodies behind the provider's back.

    class TestPods(ProviderContract):
        @pytest.fixture
        async def ground(self) -> AsyncIterator[Ground]: ...
"""

from typing import Any, Protocol

import pytest

from jackline.workspaces.contract import LOSSES, Attached, NotOurs, PlaceFailed, Provider, WorkspaceRef
from tests.waiting import BOUND_S, eventually

WITHIN_S = BOUND_S
REASONS = frozenset(
    {
        "PodDeleted",
        "Evicted",
        "Terminated",
        "PodFailed",
        "PodSucceeded",
        "NodeLost",
        "Deleted",
        "DirectoryDeleted",
        "DirectoryReplaced",
        "ProcessExited",
    }
)


class Ground(Protocol):
    """A backend under test, and what can happen to it."""

    provider: Provider
    can_be_blinded: bool

    def spec(self) -> Any:
        """What a workspace of this kind is placed with."""

    def impossible(self) -> Any:
        """A spec of which no body can come to be."""

    def again(self) -> Provider:
        """A provider that was started anew on the same backend."""

    async def destroy(self, ref: WorkspaceRef) -> None:
        """End the body from outside."""

    async def replace(self, ref: WorkspaceRef) -> WorkspaceRef:
        """Put another body in its place; the workspace as it is to be asked about from now on."""

    async def foreign(self, workspace_id: str) -> WorkspaceRef:
        """A body without our mark that stands where the workspace's would."""

    async def exists(self, ref: WorkspaceRef) -> bool:
        """Whether a body is there, marked or not."""

    async def blind(self) -> None:
        """Make the bodies impossible to see, without ending any."""

    async def sight(self) -> None:
        """Make them visible again."""


async def placed(ground: Ground, workspace_id: str = "w1") -> WorkspaceRef:
    """A workspace with its body attached."""
    await ground.provider.place(workspace_id, ground.spec())
    attached = await attached_of(ground.provider, WorkspaceRef(workspace_id, spec=ground.spec()))
    return WorkspaceRef(workspace_id, attached.identity, ground.spec())


async def attached_of(provider: Provider, ref: WorkspaceRef) -> Attached:
    """The answer once the body is there."""

    async def once() -> Attached | None:
        answer = await provider.attach(ref)
        return answer if isinstance(answer, Attached) else None

    return await eventually(once, what="the body is attached", within_s=WITHIN_S)


class ProviderContract:
    """What holds of every kind of workspace."""

    async def test_a_placed_body_is_attached_with_an_identity_of_its_own(self, ground: Ground) -> None:
        one, other = await placed(ground, "w1"), await placed(ground, "w2")

        assert one.identity
        assert one.identity != other.identity
        assert len(one.identity) <= 512

    async def test_placing_again_makes_no_second_body(self, ground: Ground) -> None:
        ref = await placed(ground)
        await ground.provider.place(ref.workspace_id, ground.spec())

        assert ref.identity == (await attached_of(ground.provider, ref)).identity

    async def test_a_body_that_cannot_come_to_be_is_said_to_fail(self, ground: Ground) -> None:
        spec = ground.impossible()

        async def attempt() -> None:
            await ground.provider.place("w1", spec)
            await attached_of(ground.provider, WorkspaceRef("w1", spec=spec))

        with pytest.raises(PlaceFailed) as raised:
            await attempt()

        assert raised.value.reason
        assert raised.value.message

    async def test_a_living_body_is_present_under_its_identity(self, ground: Ground) -> None:
        ref = await placed(ground)
        seen = await ground.provider.continuity(ref)

        assert ("present", ref.identity) == (seen.kind, seen.identity)

    async def test_a_provider_that_was_started_anew_sees_the_same_body(self, ground: Ground) -> None:
        ref = await placed(ground)
        seen = await ground.again().continuity(ref)

        assert ("present", ref.identity) == (seen.kind, seen.identity)

    async def test_an_assertion_leaves_the_body_as_it_was(self, ground: Ground) -> None:
        ref = await placed(ground)
        await ground.provider.assert_(ref)  # noqa: PT009 - an operation of the contract

        assert "present" == (await ground.provider.continuity(ref)).kind

    async def test_a_body_that_was_destroyed_is_lost_for_a_known_reason(self, ground: Ground) -> None:
        ref = await placed(ground)
        await ground.destroy(ref)
        seen = await self.loss_of(ground, ref)

        assert seen.kind in ("gone", "ended")
        assert seen.reason in REASONS
        assert seen.identity in (ref.identity, None)

    async def test_asserting_a_lost_body_brings_nothing_back(self, ground: Ground) -> None:
        ref = await placed(ground)
        await ground.destroy(ref)
        await ground.provider.assert_(ref)  # noqa: PT009 - an operation of the contract

        assert (await self.loss_of(ground, ref)).is_loss

    async def test_another_body_in_its_place_is_never_present(self, ground: Ground) -> None:
        ref = await ground.replace(await placed(ground))
        seen = await self.loss_of(ground, ref)

        assert seen.kind in LOSSES
        assert seen.reason in REASONS

    async def test_a_body_that_cannot_be_seen_is_not_lost(self, ground: Ground) -> None:
        ref = await placed(ground)
        if ground.can_be_blinded:
            await ground.blind()
            blind = await ground.provider.continuity(ref)
            await ground.sight()

            assert "watch_dropped" == blind.kind
        assert "present" == (await ground.provider.continuity(ref)).kind

    async def test_a_healthy_body_has_no_memory_fault(self, ground: Ground) -> None:
        assert (await ground.provider.memory_fault(await placed(ground))) is None

    async def test_teardown_destroys_the_body_and_a_repeat_is_success(self, ground: Ground) -> None:
        ref = await placed(ground)
        await self.torn_down(ground, ref)

        assert not await ground.exists(ref)
        assert await ground.provider.teardown(ref)

    async def test_teardown_by_a_provider_that_was_started_anew_destroys_the_body(self, ground: Ground) -> None:
        ref = await placed(ground)
        anew = ground.again()

        async def once() -> bool:
            return await anew.teardown(ref)

        await eventually(once, what="the body is destroyed", within_s=WITHIN_S)

        assert not await ground.exists(ref)

    async def test_a_body_that_does_not_carry_our_mark_is_never_destroyed(self, ground: Ground) -> None:
        ref = await ground.foreign("w9")
        with pytest.raises(NotOurs):
            await ground.provider.teardown(ref)

        assert await ground.exists(ref)

    async def loss_of(self, ground: Ground, ref: WorkspaceRef) -> Any:
        """The loss once it is seen: a body may take its time to go."""

        async def once() -> Any:
            seen = await ground.provider.continuity(ref)
            return seen if seen.is_loss else None

        return await eventually(once, what="the loss is seen", within_s=WITHIN_S)

    async def torn_down(self, ground: Ground, ref: WorkspaceRef) -> None:
        """Tear it down and wait until it is gone."""

        async def once() -> bool:
            return await ground.provider.teardown(ref)

        await eventually(once, what="the body is destroyed", within_s=WITHIN_S)
