"""Who may use which route: one table, committed, and complete.

The service does not start when a route has no row or a row has no route, so nothing is open because somebody forgot.
A role opens a route; what a principal may touch behind it (its own leaders, workers and runs) is decided by the
command. ``PUBLIC`` routes need no key; they say nothing but whether the service is there.
"""

from collections.abc import Iterable, Mapping

from commands.desk import Role

Roles = frozenset[Role]

PUBLIC: Roles = frozenset()
ADMIN: Roles = frozenset({"admin"})
EVERYBODY: Roles = frozenset({"leader", "worker", "reader", "operator", "admin"})
OPERATORS: Roles = frozenset({"operator", "admin"})
LEADERS: Roles = frozenset({"leader", "admin"})
STEERERS: Roles = frozenset({"leader", "operator", "admin"})
WORKERS: Roles = frozenset({"worker", "admin"})
READERS: Roles = frozenset({"reader", "operator", "admin"})
FLEET: Roles = frozenset({"worker", "operator", "admin"})

TABLE: Mapping[str, Roles] = {
    "GET /livez": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /healthz": EVERYBODY,
    "POST /v1/health/ack": OPERATORS,
    "GET /v1/version": EVERYBODY,
    "GET /v1/whoami": EVERYBODY,
    "GET /v1/openapi.json": EVERYBODY,
    "POST /v1/tickets": EVERYBODY,
    "POST /v1/keys": ADMIN,
    "GET /v1/keys": ADMIN,
    "DELETE /v1/keys/{key_id}": ADMIN,
    "POST /v1/runs": LEADERS,
    "POST /v1/runs/batch": LEADERS,
    "GET /v1/runs": EVERYBODY,
    "GET /v1/runs/{run_id}": EVERYBODY,
    "GET /v1/runs/{run_id}/facts": EVERYBODY,
    "GET /v1/runs/{run_id}/output": EVERYBODY,
    "GET /v1/runs/{run_id}/effects": EVERYBODY,
    "GET /v1/runs/{run_id}/why": EVERYBODY,
    "GET /v1/runs/{run_id}/timeline": EVERYBODY,
    "GET /v1/effects": EVERYBODY,
    "GET /v1/usage": READERS,
    "GET /v1/projections": READERS,
    "POST /v1/runs/{run_id}/cancel": STEERERS,
    "POST /v1/runs/{run_id}/pause": STEERERS,
    "POST /v1/runs/{run_id}/resume": STEERERS,
    "POST /v1/runs/{run_id}/answer": STEERERS,
    "POST /v1/runs/{run_id}/verdict": LEADERS,
    "POST /v1/runs/{run_id}/retry": STEERERS,
    "POST /v1/runs/cancel": STEERERS,
    "POST /v1/runs/{run_id}/reassign": STEERERS,
    "POST /v1/runs/{run_id}/timeouts/{fact_id}/ack": STEERERS,
    "GET /v1/leaders": EVERYBODY,
    "GET /v1/leaders/{leader_id}": EVERYBODY,
    "GET /v1/leaders/{leader_id}/presence": LEADERS,
    "WS /v1/leaders/{leader_id}/presence": LEADERS,
    "PUT /v1/leaders/{leader_id}/sessions/{session_id}": LEADERS,
    "DELETE /v1/leaders/{leader_id}/sessions/{session_id}": LEADERS,
    "PUT /v1/workers/{worker_id}": WORKERS,
    "GET /v1/workers": EVERYBODY,
    "GET /v1/workers/{worker_id}": EVERYBODY,
    "POST /v1/workers/{worker_id}/drain": FLEET,
    "DELETE /v1/workers/{worker_id}": FLEET,
    "POST /v1/workers/{worker_id}/quarantine": OPERATORS,
    "POST /v1/workers/{worker_id}/release": OPERATORS,
    "POST /v1/workers/{worker_id}/heartbeat": WORKERS,
    "WS /v1/workers/{worker_id}/stream": WORKERS,
    "POST /v1/claims": WORKERS,
    "POST /v1/runs/{run_id}/claim": WORKERS,
    "POST /v1/reservations": WORKERS,
    "POST /v1/reservations/{token}/bind": WORKERS,
    "DELETE /v1/reservations/{token}": WORKERS,
    "POST /v1/runs/{run_id}/output": WORKERS,
    "POST /v1/runs/{run_id}/partial": WORKERS,
    "POST /v1/runs/{run_id}/progress": WORKERS,
    "POST /v1/runs/{run_id}/park": WORKERS,
    "POST /v1/runs/{run_id}/hand-back": WORKERS,
    "POST /v1/runs/{run_id}/close": WORKERS,
    "POST /v1/runs/{run_id}/stop-report": WORKERS,
    "POST /v1/closes": WORKERS,
    "POST /v1/runs/{run_id}/effects/{key}": WORKERS,
    "POST /v1/runs/{run_id}/effects/{key}/complete": WORKERS,
    "POST /v1/runs/{run_id}/effects/{key}/fail": WORKERS,
    "POST /v1/runs/{run_id}/effects/{key}/reconcile": frozenset({"worker", "leader", "operator", "admin"}),
    "POST /v1/runs/{run_id}/turns": WORKERS,
    "POST /v1/runs/{run_id}/turns/{turn}/delivered": WORKERS,
    "POST /v1/runs/{run_id}/turns/{turn}/state": WORKERS,
    "POST /v1/runs/{run_id}/turns/{turn}/complete": WORKERS,
    "POST /v1/runs/{run_id}/turns/{turn}/fail": WORKERS,
    "POST /v1/runs/{run_id}/turns/{turn}/notice": WORKERS,
    "POST /v1/workspaces": WORKERS,
    "GET /v1/workspaces": EVERYBODY,
    "GET /v1/workspaces/{workspace_id}": EVERYBODY,
    "DELETE /v1/workspaces/{workspace_id}": frozenset({"worker", "leader", "operator", "admin"}),
    "POST /v1/workspaces/{workspace_id}/phase": WORKERS,
    "POST /v1/workspaces/{workspace_id}/attach": WORKERS,
    "POST /v1/workspaces/{workspace_id}/observations": WORKERS,
    "POST /v1/workspaces/{workspace_id}/assert": WORKERS,
    "POST /v1/observers/{observer_id}/observations": WORKERS,
    "GET /v1/journal": OPERATORS,
    "GET /v1/queues": EVERYBODY,
    "GET /v1/queues/{queue}": EVERYBODY,
    "PUT /v1/queues/{queue}": OPERATORS,
}
"""Method and path to the roles that may use it."""


class TableIncomplete(Exception):
    """A route has no row, or a row has no route."""


def check(routes: Iterable[str]) -> None:
    """Refuse to go on unless the table has exactly these routes."""
    found = set(routes)
    missing, stale = sorted(found - TABLE.keys()), sorted(TABLE.keys() - found)
    if missing or stale:
        message = f"the table of roles is not that of the routes: without a row {missing}, without a route {stale}"
        raise TableIncomplete(message)
