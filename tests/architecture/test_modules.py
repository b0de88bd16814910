"""Every module can be read by itself: it says what it is, it is small, and it hides nothing unfinished."""

import ast
import re

from tests.architecture.sources import EVERYTHING, PRODUCTION, ROOMS, ROOT, Function, Module, dotted, modules

MODULE_LINES = 400
DOMAIN_LINES = 300
FUNCTION_LINES = 40
SENTENCE = re.compile(r"^\S.{20,}?[.:,;](\s|$)", re.DOTALL)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
UNRUN = (
    "pytest.mark.skip",
    "pytest.mark.skipif",
    "pytest.mark.xfail",
    "pytest.skip",
    "pytest.xfail",
    "pytest.importorskip",
)
PAUSES = ("time.sleep", "asyncio.sleep")
CLOCKS = (
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "datetime.now", "datetime.utcnow",
    "datetime.datetime.now", "datetime.datetime.utcnow", "date.today",
)  # fmt: skip
WITH_REAL_TIME = {"tests/waiting.py"}
WITH_VIRTUAL_TIME = {"tests/policies/test_manager.py"}
"""Run on an event loop whose time is the world's own: a pause there is an instant passed, not waited for."""


def test_every_room_is_there_and_none_is_empty() -> None:
    empty = [room for room in ROOMS if not modules(room)]

    assert [] == empty


def test_every_folder_of_a_room_is_a_package() -> None:
    folders = {(ROOT / module.path).parent for module in modules(*PRODUCTION)}

    assert [] == sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists())


def test_every_module_opens_with_a_sentence_that_says_what_it_is() -> None:
    silent = [
        module.path for module in modules(*EVERYTHING) if not SENTENCE.match(ast.get_docstring(module.tree) or "")
    ]

    assert [] == silent


def test_no_module_is_longer_than_can_be_read_in_one_sitting() -> None:
    long = [
        f"{module.path} has {module.lines} lines" for module in modules(*EVERYTHING) if module.lines > _bound(module)
    ]

    assert [] == long


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{module.at(function)} {function.name} has {_lines(function)} lines"
        for module in modules(*EVERYTHING)
        for function in module.functions()
        if _lines(function) > FUNCTION_LINES
    ]

    assert [] == long


def test_no_module_imports_relatively() -> None:
    relative = [
        module.at(node)
        for module in modules(*EVERYTHING)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]

    assert [] == relative


def test_nothing_committed_is_marked_as_unfinished() -> None:
    unfinished = [
        f"{module.path}: {match.group()}"
        for module in modules(*EVERYTHING)
        if module.path != "tests/architecture/test_modules.py"
        for match in UNFINISHED.finditer(module.text)
    ]

    assert [] == unfinished


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    unrun = [
        module.at(node)
        for module in modules("tests")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and dotted(node) in UNRUN
    ]

    assert [] == unrun


def test_the_domain_its_world_and_the_tests_never_pause_and_never_read_a_clock() -> None:
    timed = [
        f"{module.at(call)} {dotted(call.func)}"
        for module in modules("domain", "simulation", "tests")
        if module.path not in WITH_REAL_TIME | WITH_VIRTUAL_TIME
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and (dotted(call.func) in CLOCKS or _pauses(call))
    ]

    assert [] == timed


def test_the_name_of_every_test_is_a_sentence() -> None:
    labels = [
        f"{module.at(function)} {function.name}"
        for module in modules("tests")
        for function in module.functions()
        if function.name.startswith("test_") and len(function.name.split("_")) < 4
    ]

    assert [] == labels


def _bound(module: Module) -> int:
    return DOMAIN_LINES if module.path.startswith("domain/") else MODULE_LINES


def _lines(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    first, last = function.lineno, function.end_lineno or function.lineno
    opening = function.body[0]
    documented = ast.get_docstring(function) is not None
    return last - first + 1 - (((opening.end_lineno or 0) - opening.lineno + 1) if documented else 0)


def _pauses(call: ast.Call) -> bool:
    """Whether the call waits for time to pass; `asyncio.sleep(0)` only lets others run."""
    zero = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return dotted(call.func) in PAUSES and not zero
