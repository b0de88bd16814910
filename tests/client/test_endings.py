"""From exit evidence to what is told: evidence, not verdicts."""

from dataclasses import replace

import pytest

from jackline.worker.endings import Circumstances, Ending, Exit, ending, no_command

pytestmark = pytest.mark.origin("A33")


def test_exit_code_0_closes_as_succeeded_with_the_result_that_was_written() -> None:
    told = ending(Exit(exit_code=0), Circumstances(result={"n": 1}, result_written=True))

    assert Ending("close", {"outcome": "succeeded", "result": {"n": 1}}) == told


def test_exit_code_0_without_a_result_still_says_how_it_ended() -> None:
    told = ending(Exit(exit_code=0), Circumstances())

    assert Ending("close", {"outcome": "succeeded", "result": {"exit_code": 0}}) == told


def test_another_exit_code_closes_as_failed_and_may_be_retried() -> None:
    told = ending(Exit(exit_code=7), Circumstances())

    assert ("close", "failed", True) == (told.verb, told.body["outcome"], told.body["retryable"])
    assert ("exit", 7) == (told.body["error"]["code"], told.body["error"]["exit_code"])


def test_a_result_does_not_turn_a_failure_into_a_success() -> None:
    told = ending(Exit(exit_code=7), Circumstances(result=1, result_written=True))

    assert "failed" == told.body["outcome"]


def test_a_signal_is_named() -> None:
    told = ending(Exit(signal=9), Circumstances())

    assert ("signal", 9, "SIGKILL") == tuple(told.body["error"][name] for name in ("code", "signal", "name"))


@pytest.mark.origin("A4")
@pytest.mark.origin("C36")
@pytest.mark.parametrize(("exit_", "how"), [(Exit(signal=9), ("signal", 9)), (Exit(exit_code=137), ("exit_code", 137))])
def test_a_kill_for_want_of_memory_is_called_by_its_name(exit_: Exit, how: tuple[str, int]) -> None:
    told = ending(replace(exit_, memory_limit=True), Circumstances()).body["error"]

    assert ("memory_limit", how[1]) == (told["code"], told[how[0]])
    assert told["message"].startswith("memory limit")


def test_what_the_keeper_says_of_memory_is_read() -> None:
    assert Exit(signal=9, memory_limit=True) == Exit.of({"exit_code": None, "signal": 9, "memory_limit": True})
    assert not Exit.of({"signal": 9}).memory_limit


def test_neither_code_nor_signal_is_said_and_not_guessed() -> None:
    told = ending(Exit.of(None), Circumstances())

    assert ("failed", "exit_unknown") == (told.body["outcome"], told.body["error"]["code"])


def test_a_command_that_cannot_be_started_is_not_worth_retrying() -> None:
    told = ending(Exit(not_started={"errno": 2, "message": "No such file"}), Circumstances())

    assert (False, "not_started") == (told.body["retryable"], told.body["error"]["code"])


def test_a_run_without_a_command_is_not_worth_retrying() -> None:
    assert (False, "no_command") == (no_command().body["retryable"], no_command().body["error"]["code"])


@pytest.mark.parametrize("asked", ["shutdown", "slice", "distrust", "now"])
@pytest.mark.parametrize(
    "exit_", [Exit(exit_code=0), Exit(exit_code=143), Exit(signal=15), Exit(signal=9, killed=True)]
)
def test_a_command_asked_to_end_for_our_sake_is_handed_back_however_it_exits(asked: str, exit_: Exit) -> None:
    assert Ending("hand-back") == ending(exit_, Circumstances(asked=asked))


def test_a_keeper_that_ended_the_command_by_itself_hands_it_back() -> None:
    assert Ending("hand-back") == ending(Exit(signal=15, stop="distrust"), Circumstances())


@pytest.mark.parametrize("asked", ["shutdown", "slice", "distrust", "cancel", "pause"])
def test_a_command_that_says_outright_that_it_has_finished_is_believed(asked: str) -> None:
    told = ending(Exit(exit_code=0), Circumstances(asked=asked, result=1, result_written=True))

    assert ("close", "succeeded") == (told.verb, told.body["outcome"])


@pytest.mark.parametrize("exit_", [Exit(exit_code=0), Exit(exit_code=143), Exit(signal=15)])
def test_a_cancelled_command_closes_as_stopped(exit_: Exit) -> None:
    told = ending(exit_, Circumstances(asked="cancel"))

    assert ("failed", "stopped", False) == (told.body["outcome"], told.body["error"]["code"], told.body["retryable"])


def test_a_paused_command_is_parked() -> None:
    told = ending(Exit(exit_code=0), Circumstances(asked="pause"))

    assert ("park", "paused", False) == (told.verb, told.body["kind"], told.body["keep_lease"])


@pytest.mark.origin("A47")
@pytest.mark.parametrize(("killed", "report"), [(False, "saved"), (True, "ignored")])
def test_a_lost_run_gets_one_report_and_no_outcome(killed: bool, report: str) -> None:
    told = ending(Exit(exit_code=0, killed=killed), Circumstances(lost=True))

    assert Ending("stop-report", {"report": report}) == told


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_that_parked_its_run_does_not_close_it(code: int) -> None:
    assert Ending("nothing") == ending(Exit(exit_code=code), Circumstances(parked={"keep_lease": False}))


def test_a_lease_kept_while_parked_is_given_up_when_nobody_waits_any_more() -> None:
    parked = {"keep_lease": True, "kind": "waiting_peer", "question": "?"}

    told = ending(Exit(exit_code=0), Circumstances(parked=parked))

    assert Ending("park", {"kind": "waiting_peer", "question": "?", "keep_lease": False}) == told
