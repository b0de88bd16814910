"""The interface as an OpenAPI 3.1 document: what the routes say of themselves, completed where the framework cannot.

Every operation may answer with a problem, and needs a bearer key unless its row in the table of roles says otherwise.
The document is a pure function of the code; it is committed, and a test fails when it is stale.
"""

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from api.roles import PUBLIC, TABLE
from api.wire import Problem

if TYPE_CHECKING:
    from api.app import Application

DESCRIPTION = """\
Supervises long-running runs: they survive the death of the worker that executes them.

Times are RFC 3339 in UTC, durations are seconds (`_s`). Every command accepts `Idempotency-Key`; an answer to one that
was recorded carries `Jackline-Position`, and every read accepts `min_position`. Failures are RFC 9457 problems with a
stable `code`. The stream of a worker is a WebSocket at `/v1/workers/{worker_id}/stream`, with the heartbeat's messages.
"""
POSITION = {"Jackline-Position": {"description": "position of the last fact recorded", "schema": {"type": "integer"}}}


def document() -> dict[str, Any]:
    """The document, without opening or serving anything."""
    from api.app import build_app
    from api.clock import system_clock
    from api.node import Node
    from api.settings import Settings

    return document_of(build_app(Node(Settings(), system_clock, "")))


def document_of(app: "Application") -> dict[str, Any]:
    """The document of an application's routes."""
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=DESCRIPTION,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    components = made["components"]
    for theirs in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(theirs, None)
    components["schemas"]["Problem"] = Problem.model_json_schema()
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "jlk_..."}}
    made["security"] = [{"key": []}]
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _complete(operation, TABLE.get(f"{method.upper()} {path}") == PUBLIC)
    return made


def _complete(operation: dict[str, Any], public: bool) -> None:
    if public:
        operation["security"] = []
        return
    responses = operation["responses"]
    # The framework's own refusal of a body, which is never sent: ours is a problem like any other.
    responses.pop("422", None)
    schema = {"$ref": "#/components/schemas/Problem"}
    responses["default"] = {
        "description": "a problem (RFC 9457)",
        "content": {"application/problem+json": {"schema": schema}},
    }
    if any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", ())):
        for status, response in responses.items():
            if status != "default":
                response["headers"] = POSITION
