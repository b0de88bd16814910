"""Facts as they are shown: one model for each stored name, generated from the closed table, told apart by ``topic``.

The journal's structs are the only description of a fact; the models here are made from them, field by field, so the
interface can neither promise a field that is not stored nor forget one that is. They are for the OpenAPI document and
for tests that hold answers against it; answers themselves are encoded from the facts and never pass through a model.
"""

from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from domain.values import Fact, Json
from journal.topics import TOPICS

_models: dict[type, type[BaseModel]] = {}


class Shown(BaseModel):
    """An answer: closed, so that nothing leaves that is not written down."""

    model_config = ConfigDict(extra="forbid")


class ShownFact(Shown):
    """One fact in its place: position in the journal, stream, and who recorded it when and because of what."""

    position: int
    fact_id: str
    topic: str
    stream: str
    recorded_at: datetime
    causation_id: str | None
    principal: str | None
    data: Any


def model_of(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """The model that has the struct's fields and docstring; every field is there, since every one is encoded."""
    known = _models.get(struct)
    if known is None:
        name = struct.__name__ if issubclass(struct, Fact) else f"Recorded{struct.__name__}"
        fields: dict[str, Any] = {field.name: (_shown(field.type), ...) for field in msgspec.structs.fields(struct)}
        known = _models[struct] = create_model(name, __base__=Shown, __doc__=struct.__doc__, **fields)
    return known


def _shown(annotation: Any) -> Any:
    """The type of a field with its structs replaced by models; user JSON may be anything."""
    if annotation is Json:
        return Any
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return model_of(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal:
        return annotation
    if origin in (Union, UnionType):
        return Union[tuple(part if part is NoneType else _shown(part) for part in inner)]  # noqa: UP007
    return origin[tuple(part if part is Ellipsis else _shown(part) for part in inner)]


def _entry(topic: str, fact: type[Fact]) -> type[BaseModel]:
    fields: dict[str, Any] = {"topic": (Literal[topic], ...), "data": (model_of(fact), ...)}
    name = "".join(word.capitalize() for word in topic.replace("_", ".").split("."))
    return create_model(name, __base__=ShownFact, __doc__=f"`{topic}`: {fact.__doc__}", **fields)


def union_of(table: dict[str, type[Fact]]) -> Any:
    """Every fact that the table knows, told apart by ``topic``."""
    entries = tuple(_entry(topic, fact) for topic, fact in table.items())
    return Annotated[Union[entries], Field(discriminator="topic")]  # noqa: UP007


AnyFact = union_of(dict(TOPICS))
