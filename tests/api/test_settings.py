"""Settings: bounded, from options, environment or defaults, and each says where it came from."""

from pathlib import Path

import pytest

from api.settings import PREFIX, InvalidSetting, Settings, describe, load

TIMERS = {
    "LEADER_GRACE_S": 60, "WORKER_GONE_S": 60, "RECONNECT_S": 1, "CANCEL_GRACE_S": 10, "KILL_GRACE_S": 10,
    "QUARANTINE_S": 300, "NODE_DEAD_S": 15, "PROVISIONING_S": 120, "RESERVATION_S": 120, "ASSERT_EVERY_S": 300,
    "IDLE_REAP_S": 1800, "ADMISSION_S": 90, "RETRY_CONTINUATION_S": 1, "OBSERVER_ALARM_S": 300,
}  # fmt: skip


@pytest.mark.parametrize(("name", "seconds"), TIMERS.items())
def test_every_timer_has_its_default_and_can_be_shrunk_to_a_fraction(
    name: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seconds == getattr(load(), name.lower())

    monkeypatch.setenv(PREFIX + name, "0.05")

    assert 0.05 == getattr(load(), name.lower())


def test_the_timers_reach_those_who_wait_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACKLINE_RECONNECT_S", "0.2")

    assert 0.2 == load().timers().reconnect_s


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RECONNECT_S", "-1"),
        ("RECONNECT_S", "nan"),
        ("RECONNECT_S", "inf"),
        ("RECONNECT_S", "86400.5"),
        ("RECONNECT_S", "soon"),
        ("PORT", "65536"),
        ("PORT", "http"),
        ("FENCE_REQUIRED", "maybe"),
        ("TENANT_MAX_LEASES", "0"),
        ("TENANT_MAX_LEASES", "1000001"),
    ],
)
def test_a_value_outside_its_bounds_is_refused_in_one_line_with_the_variable_the_value_and_the_bounds(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX + name, value)

    with pytest.raises(InvalidSetting) as refused:
        load()

    line = str(refused.value)
    assert line.startswith(f"setting_invalid: {PREFIX}{name} is ")
    assert all(part in line for part in (value, "must be"))
    assert "\n" not in line


@pytest.mark.parametrize(("given", "limit"), [(None, None), ("", None), ("1", 1), ("1000000", 1_000_000)])
def test_a_tenant_has_no_limit_of_leases_unless_one_is_set(
    given: str | None, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is not None:
        monkeypatch.setenv("JACKLINE_TENANT_MAX_LEASES", given)

    assert limit == load().tenant_max_leases


def test_a_journal_elsewhere_is_refused_rather_than_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACKLINE_DATABASE_URL", "postgresql://somewhere/db")

    with pytest.raises(InvalidSetting, match="JACKLINE_DATABASE_URL"):
        load()


def test_an_option_wins_over_the_environment_and_the_environment_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JACKLINE_PORT", "9000")

    assert 9000 == load().port
    assert 9001 == load(port=9001).port


def test_every_setting_is_listed_with_its_value_unit_bounds_and_source() -> None:
    settings = load(port=9001)
    rows = {row["setting"]: row for row in describe(settings, frozenset({"port"}), {"JACKLINE_RECONNECT_S": "0.5"})}

    assert {PREFIX + name.upper() for name in Settings.model_fields} == set(rows)
    assert ("9001", "option") == (rows["JACKLINE_PORT"]["value"], rows["JACKLINE_PORT"]["source"])
    assert ("s", "environment") == (rows["JACKLINE_RECONNECT_S"]["unit"], rows["JACKLINE_RECONNECT_S"]["source"])
    assert "between 0 and 86400" == rows["JACKLINE_RECONNECT_S"]["bounds"]
    assert "off, warn, required" == rows["JACKLINE_FENCE_REQUIRED"]["bounds"]
    assert all(row["meaning"] for row in rows.values())


@pytest.mark.parametrize(("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False)])
def test_only_loopback_is_this_machine_alone(host: str, loopback: bool, tmp_path: Path) -> None:
    assert loopback == load(host=host, data_dir=tmp_path).loopback
