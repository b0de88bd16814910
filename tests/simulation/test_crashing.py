"""The service dies at every step of the canonical scenarios: nothing acknowledged is lost, and everything settles."""

import asyncio

import msgspec
import pytest

from commands.desk import Desk
from simulation.__main__ import main
from simulation.broken import LawBroken
from simulation.crashing import PLACES, Doomed, Where, die_at_every_step
from simulation.laws import L10, L15
from simulation.messages import Message, Reply, sent
from simulation.planted.machinery import forget_commands
from simulation.scenarios import SCENARIOS

REACTS = {
    "taken_over", "closed_late", "cancelled_in_the_middle", "left_by_its_leader", "reserved_ahead",
    "handed_on_by_its_slice", "lost_by_an_exit_that_nobody_explains", "watched_and_unseen", "cut_by_a_restart",
}  # fmt: skip
"""Scenarios in which the service does something by itself."""


@pytest.mark.origin("D38", "H1", "R11", "C11")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_death_at_any_step_loses_nothing_acknowledged_and_everything_settles(name: str, where: Where) -> None:
    died = die_at_every_step(name, where)

    assert died.steps >= (4 if where != "reaction" else name in REACTS)


def test_a_scenario_that_is_not_killed_goes_to_its_end() -> None:
    for name, scenario in SCENARIOS.items():
        doomed = Doomed(scenario, "before", 10_000)
        asyncio.run(doomed.play())
        doomed.world.close()

        assert not doomed.died, name
        assert [] == doomed.world.history.open_runs()


def test_an_acknowledgement_of_what_is_not_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def boast(message: Message, desk: Desk) -> Reply:
        reply = await sent(message, desk)
        return msgspec.structs.replace(reply, position=None if reply.position is None else reply.position + 1)

    monkeypatch.setattr("simulation.crashing.sent", boast)

    with pytest.raises(LawBroken) as broken:
        die_at_every_step("done_by_its_worker", "before")
    assert L10 == broken.value.law


def test_a_service_that_forgets_which_commands_it_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_commands(monkeypatch)

    with pytest.raises(LawBroken) as broken:
        die_at_every_step("done_by_its_worker", "after")
    assert L15 == broken.value.law


def test_the_command_tells_how_often_it_died(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("simulation.crashing.SCENARIOS", {"taken_over": SCENARIOS["taken_over"]})

    assert 0 == main(["--crashes"])

    told = capsys.readouterr().out
    assert "taken_over" in told
    assert "nothing acknowledged was lost, and everything settled" in told


def test_the_command_tells_the_breach_with_its_scenario_and_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("simulation.crashing.SCENARIOS", {"taken_over": SCENARIOS["taken_over"]})
    monkeypatch.setattr("domain.standing.RunDraft.make_ambiguous", lambda draft: None)

    assert 1 == main(["--crashes"])
    assert "taken_over, killed before step" in capsys.readouterr().out
