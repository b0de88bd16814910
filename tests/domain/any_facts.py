"""Any fact at all, made from its own type: what `evolve` has to accept, whether or not it could ever be decided."""

from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from domain.values import Fact, Json
from tests.domain.kit import noon, text

NAMES = st.sampled_from(["ada", "bob", "mail", "r1"])
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: NAMES,
    bool: st.booleans(),
    int: st.integers(-1, 4),
    float: st.sampled_from([0.5, 60.0, 3600.0]),
    datetime: st.integers(-100, 100).map(noon),
    Json: st.sampled_from([None, 1, "x", {"a": [1]}]).map(text),
    Any: st.sampled_from([None, 1, "x"]),
    NoneType: st.none(),
}


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as facts use it; ids and numbers from so few that they meet again and again."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    arguments = get_args(kind)
    match get_origin(kind):
        case origin if origin is Literal:
            return st.sampled_from(arguments)
        case origin if origin is Union or origin is UnionType:
            return st.one_of([any_of(each) for each in arguments])
        case origin if origin is dict:
            return st.dictionaries(any_of(arguments[0]), any_of(arguments[1]), max_size=2)
        case origin if origin is tuple:
            return st.lists(any_of(arguments[0]), max_size=2).map(tuple)
        case _:
            return any_struct(kind)


def any_struct(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Instances of a struct, every field drawn on its own."""
    return st.builds(kind, **{field.name: any_of(field.type) for field in msgspec.structs.fields(kind)})


def any_fact(union: Any) -> st.SearchStrategy[Fact]:
    """Facts of an aggregate: of one kind, or of any kind of a union of them."""
    return st.one_of([any_struct(kind) for kind in get_args(union) or (union,)])
