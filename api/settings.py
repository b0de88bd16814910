"""Every setting of the service: its unit, its bounds, where its value came from.

A setting is named ``JACKLINE_`` and its name in capitals in the environment; an option of ``jackline serve`` wins over
the environment, and the environment over the default. Durations are seconds, fractions allowed. A value outside its
bounds ends the start with one line that names the code, the variable, the value and the bounds. ``jackline config``
lists them.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from commands.desk import FenceMode, Timers
from jackline.address import default_data_dir

PREFIX = "JACKLINE_"
DAY_S = 86_400.0
TENANT_LEASES_MAX = 1_000_000

Source = Literal["option", "environment", "default"]


class InvalidSetting(Exception):
    """A setting has a value that it cannot have; the message is one line with code, variable, value and bounds."""

    code = "setting_invalid"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{self.code}: {problem}")


def _default_data_dir() -> Path:
    return default_data_dir(os.environ)


def _seconds(default: float, meaning: str, *, low: float = 0.0) -> Any:
    return Field(default, ge=low, le=DAY_S, description=meaning, json_schema_extra={"unit": "s"})


class Settings(BaseSettings):
    """The settings of one start of the service; immutable."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True)

    data_dir: Path = Field(
        default_factory=_default_data_dir, description="where journal, keys and read models are kept"
    )
    host: str = Field("127.0.0.1", min_length=1, description="where to listen; beyond loopback only with --insecure")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        8321, description="port to listen on; 0 takes that of the start before, else a free one"
    )
    database_url: str | None = Field(None, description="reserved for a journal on PostgreSQL; must be unset")
    insecure: bool = Field(False, description="listen beyond loopback although keys then travel in clear text")
    fence_required: FenceMode = Field("required", description="what a guarded write without a fence means")
    drain_s: float = _seconds(10.0, "how long a stop waits for what is under way", low=0.1)
    streams: Annotated[int, Field(ge=1, le=1_000_000)] = Field(10_000, description="open streams at most, in all")
    key_failures: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        10, description="keys that open nothing, for each address and minute, that are told 401; more are told 429"
    )

    tenant_max_leases: int | None = Field(
        None, ge=1, le=TENANT_LEASES_MAX, description="leases of one tenant at most, in all; unset: no limit"
    )

    leader_grace_s: float = _seconds(60.0, "how long a leader may have no connection before its runs are settled")
    worker_gone_s: float = _seconds(60.0, "how long a worker may be unheard before it is gone")
    reconnect_s: float = _seconds(1.0, "what is left of its leases once a worker's last stream was closed by its side")
    cancel_grace_s: float = _seconds(10.0, "how long a holder may save and close once its run is to be cancelled")
    kill_grace_s: float = _seconds(10.0, "how long a worker's command may take to stop before it is killed")
    quarantine_s: float = _seconds(300.0, "cool-down of a quarantined worker before one probing run")
    node_dead_s: float = _seconds(15.0, "how long a node may be unheard before another declares it dead")
    provisioning_s: float = _seconds(120.0, "how long the making of a workspace may take")
    reservation_s: float = _seconds(120.0, "how long a reservation may wait to be bound")
    assert_every_s: float = _seconds(300.0, "how often a workspace is said to be needed, give or take a fifth")
    idle_reap_s: float = _seconds(1800.0, "how long a workspace that nobody asserts is kept")
    admission_s: float = _seconds(90.0, "how long an undelivered turn is tried again")
    retry_continuation_s: float = _seconds(1.0, "when a run that was handed on without a failure is due again")
    observer_alarm_s: float = _seconds(300.0, "how long a workspace may be unknown before that is an alarm")
    teardown_alarm_s: float = _seconds(3600.0, "how long a body may wait to be destroyed before that is an alarm")

    def timers(self) -> Timers:
        """The durations that commands and policies wait by."""
        return Timers(**{name: getattr(self, name) for name in Timers.__struct_fields__})

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return self.host in {"127.0.0.1", "::1", "localhost"}


def load(**options: Any) -> Settings:
    """The settings of this start; options that are None were not given.

    Raises:
        InvalidSetting: a value is outside its bounds.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise InvalidSetting(_sentence(error)) from error
    if settings.database_url is not None:
        message = f"{PREFIX}DATABASE_URL is set, and this version keeps its journal in an embedded file only: unset it"
        raise InvalidSetting(message)
    return settings


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    field = Settings.model_fields.get(name)
    bound = "" if field is None else f" (must be {bound_of(field)})"
    return f"{PREFIX}{name.upper()} is {first['input']!r}: {first['msg'].lower()}{bound}"


def bound_of(field: FieldInfo) -> str:
    """What values the setting may have, in words."""
    low = next((rule.ge for rule in field.metadata if hasattr(rule, "ge")), None)
    high = next((rule.le for rule in field.metadata if hasattr(rule, "le")), None)
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}" if isinstance(high, float) else f"between {low} and {high}"
    if field.annotation is bool:
        return "true or false"
    choices = getattr(field.annotation, "__args__", ())
    if choices and all(isinstance(choice, str) for choice in choices):
        return ", ".join(choices)
    return "a path" if field.annotation is Path else "text"


def unit_of(field: FieldInfo) -> str:
    """The unit of the setting's value, if it has one."""
    extra = field.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def describe(settings: Settings, options: frozenset[str], environ: Mapping[str, str]) -> list[dict[str, str]]:
    """One row per setting: variable, value, unit, bounds, source and meaning."""
    return [
        {
            "setting": f"{PREFIX}{name.upper()}",
            "value": _shown(getattr(settings, name)),
            "unit": unit_of(field),
            "bounds": bound_of(field),
            "source": _source(name, options, environ),
            "meaning": field.description or "",
        }
        for name, field in Settings.model_fields.items()
    ]


def _source(name: str, options: frozenset[str], environ: Mapping[str, str]) -> Source:
    if name in options:
        return "option"
    return "environment" if environ.get(f"{PREFIX}{name.upper()}") else "default"


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
