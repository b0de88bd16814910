"""How long Hypothesis searches: a suite searches the same way every time, a soak anew and four times as long."""

from hypothesis import settings

LONGER = 4


def searching(examples: int, steps: int) -> settings:
    """Settings of a rule machine: so many examples of at most so many steps in the suite."""
    soaking = settings.get_current_profile_name() == "soak"
    return settings(
        max_examples=examples * LONGER if soaking else examples, stateful_step_count=steps, derandomize=not soaking
    )
