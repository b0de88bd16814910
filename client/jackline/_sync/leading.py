"""Being a leader, and steering what leaders want: presence, reassignment, timeouts, many runs at once."""

from typing import Any, Literal

from jackline._sync.leader import Leader
from jackline._sync.lists import every_item
from jackline._sync.runs import Runs, run_path
from jackline._sync.transport import Ask
from jackline.decode import decode, decode_list
from jackline.models import CancelFilter, Cancelled, LeaderInfo, Run
from jackline.presence import leader_path


class Leading(Runs):
    """Operations of and on leaders."""

    def leader(self, leader_id: str) -> Leader:
        """The leader of that id, present while it is used as a context manager."""
        return Leader(self, leader_id)

    def leaders(self, state: str | None = None) -> list[LeaderInfo]:
        """The leaders that are connected or have open runs, or all in a state."""
        found = [item for item in every_item(self.transport, "/v1/leaders", {"state": state})]
        return decode_list(LeaderInfo, found)

    def show_leader(self, leader_id: str) -> LeaderInfo:
        """How a leader is present, and how many open runs it has."""
        return decode(LeaderInfo, (self.transport.ask(Ask("GET", leader_path(leader_id)))).body)

    def keep_session(self, leader_id: str, session_id: str, *, ttl_s: float = 15.0) -> LeaderInfo:
        """Be present for another `ttl_s` seconds without a stream: a heartbeat session, to be repeated in time."""
        ask = Ask("PUT", leader_path(leader_id, "sessions", session_id), {"ttl_s": ttl_s})
        return decode(LeaderInfo, (self.transport.ask(ask)).body)

    def leave_session(self, leader_id: str, session_id: str) -> None:
        """End a heartbeat session; the absence begins now."""
        self.transport.ask(Ask("DELETE", leader_path(leader_id, "sessions", session_id)))

    def reassign(self, run_id: str, leader_id: str, revision: int) -> Run:
        """Make the run another leader's; refused with `RevisionStale` when somebody else has done so meanwhile."""
        return self._run(run_id, "reassign", {"leader_id": leader_id, "revision": revision})

    def acknowledge_timeout(self, run_id: str, fact_id: str, answer: Literal["extend", "abort"]) -> Run:
        """Answer a timeout of the run, named by the id of its fact: the run goes on, or is aborted.

        An extended total clock starts anew, whole; an inactivity is told again only of a silence after new activity.
        """
        ask = Ask("POST", run_path(run_id, "timeouts", fact_id, "ack"), {"answer": answer})
        return decode(Run, (self.transport.ask(ask)).body)

    def cancel_many(self, narrow: CancelFilter, *, dry_run: bool = True, limit: int = 1000) -> Cancelled:
        """Which open runs match, oldest first, and, unless it is a dry run, what became of up to `limit` of them."""
        body: dict[str, Any] = {"filter": dict(narrow), "dry_run": dry_run, "limit": limit}
        return decode(Cancelled, (self.transport.ask(Ask("POST", "/v1/runs/cancel", body))).body)
