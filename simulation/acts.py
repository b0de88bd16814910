"""What there is to do in a world, and how often each is done: a search is as good as what it tries."""

from domain.presence import DropCause

PASSING_S = (0.1, 0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0)
CAUSES: tuple[DropCause, ...] = ("closed", "left", "half_open", "slow_reader", "failed")

WORKER_ACTS = (
    *("claim",) * 5, *("claim_by_id",) * 2, "reserve", "bind", "bind", "give_reservation_back", *("save",) * 3,
    *("effect",) * 6, *("park",) * 4, "hand_back", *("close",) * 4, "close_all", "report_stop", *("detach",) * 2,
)  # fmt: skip
LEADER_ACTS = (
    *("submit",) * 6, "submit_many", "cancel_some", *("answer",) * 6, *("resume",) * 5, *("pause",) * 2, "cancel",
    *("judge",) * 4, "retry", *("reconcile",) * 3, "limit", "reassign", "acknowledge", "acknowledge",
)  # fmt: skip
GROUND_ACTS = (
    *("place",) * 4, *("make",) * 2, *("attach",) * 6, *("tell",) * 6, *("need",) * 2, "let_go",
)  # fmt: skip
STEPS: tuple[str, ...] = (
    *("send_worker",) * 45, *("send_leader",) * 22, *("beat",) * 9, *("time",) * 12, "long_time", *("unnoticed",) * 2,
    *("connect",) * 4, *("drop",) * 2, *("session",) * 4, "goodbye", "return_in_the_middle", *("together",) * 9,
    *("late",) * 3, *("repeat",) * 4, *("stall",) * 3, *("slice",) * 2, *("freeze",) * 2, "sign_off", "wall", "disk",
    "restart", "kill", "audit", "hand_over", "freeze_service", "contend", "usurp", "checkpoint", "beside", "tune",
    *("live",) * 3, *("drift",) * 2, *("last_moment",) * 2, "unexplained", "parked_ground", "restarted_turns",
    "late_list", "kept_and_answered", "late_effect", "taken_while_parked", "lost_before_the_verdict", "slow_session",
    *("ground",) * 12, *("turn",) * 6, *("observer",) * 8, *("nature",) * 6, "wanted",
)  # fmt: skip

GROUNDED: tuple[str, ...] = (
    *("send_worker",) * 30, *("send_leader",) * 14, *("beat",) * 16, *("time",) * 8, *("connect",) * 4, "drop",
    *("session",) * 4, *("together",) * 8, *("stall",) * 4, "late", *("repeat",) * 2, "freeze", "unnoticed",
    "disk", "restart", "kill", "hand_over", "freeze_service", "beside", "tune", *("live",) * 3, *("drift",) * 2,
    *("last_moment",) * 2, *("unexplained",) * 3, *("parked_ground",) * 2, *("restarted_turns",) * 2,
    *("late_list",) * 3, *("kept_and_answered",) * 2, *("late_effect",) * 2, *("taken_while_parked",) * 2,
    *("lost_before_the_verdict",) * 2, "slow_session",
    *("ground",) * 50, *("turn",) * 28, *("exchange",) * 6, *("slice",) * 3,
    *("observer",) * 16, *("nature",) * 18,
    "wanted",
)  # fmt: skip
"""Steps of a world in which less goes wrong, so that runs live long enough to stand on something."""
