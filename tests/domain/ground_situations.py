"""Every situation that a workspace can be in, by name, under a run that ada acts for; and every way to ask about it.

The names are the vocabulary of `tests.domain.ground_table`. A command meets its situation ten seconds after noon.
"""

from collections.abc import Callable

from domain import grounds, observing, placing
from tests.domain.facts import granted, submitted
from tests.domain.ground_facts import (
    BODY,
    attach,
    destroyed,
    fault,
    faulted,
    ground,
    lost,
    observe,
    placed,
    provision,
    provisioning,
    reap,
    reaped,
    release,
    released,
    restarted,
    say_gone,
    seen,
    time_out,
    unknown,
    unsee,
    wait_for,
    waits,
)
from tests.domain.kit import Decide, Given, given

_held = (submitted(max_attempts=3), granted())

GROUNDS: dict[str, Given] = {
    "placing": given(*_held, placed()),
    "placing pod": given(*_held, placed("kubernetes")),
    "waiting": given(*_held, placed("kubernetes"), waits()),
    "provisioning": given(*_held, placed("external")),
    "provisioning pod": given(*_held, placed("kubernetes"), provisioning()),
    "provisioning unseen": given(*_held, placed("kubernetes"), provisioning(), unknown()),
    "attaching": given(*_held, placed("kubernetes"), provisioning(BODY)),
    "running": given(*_held, ground()),
    "running again": given(*_held, ground(), restarted(2)),
    "unknown": given(*_held, ground(), unknown()),
    "kept": given(*_held, ground(), released(keep=True)),
    "teardown": given(*_held, ground(), released()),
    "reaped": given(*_held, ground(), reaped()),
    "destroyed": given(*_held, ground(), released(), destroyed()),
    "lost": given(*_held, ground(), lost()),
    "lost kept": given(*_held, ground(), lost(), released(keep=True)),
    "lost teardown": given(*_held, ground(), lost(), reaped()),
    "lost destroyed": given(*_held, ground(), lost(), released(), destroyed()),
    "provision_failed": given(*_held, placed(), faulted()),
    "provision_failed teardown": given(*_held, placed("kubernetes"), provisioning(BODY), faulted(), reaped()),
}

COMMANDS: dict[str, tuple[Callable[..., object], Decide]] = {
    "wait for room": (placing.wait_for, wait_for()),
    "provision": (placing.provision, provision()),
    "provision body": (placing.provision, provision(BODY)),
    "provision other": (placing.provision, provision("body-2")),
    "attach": (placing.attach, attach()),
    "attach again": (placing.attach, attach(incarnation=2)),
    "attach behind": (placing.attach, attach(incarnation=0)),
    "attach other": (placing.attach, attach("body-2")),
    "unsee": (placing.unsee, unsee()),
    "release": (placing.release, release()),
    "keep": (placing.release, release(keep=True)),
    "reap": (placing.reap, reap()),
    "say gone": (placing.say_gone, say_gone()),
    "time out": (grounds.time_out, time_out()),
    "fault": (grounds.fault, fault()),
    "present": (observing.observe, observe(seen("present", identity=BODY, incarnation=1))),
    "present bare": (observing.observe, observe("present")),
    "present other": (observing.observe, observe(seen("present", identity="body-2"))),
    "present behind": (observing.observe, observe(seen("present", identity=BODY, incarnation=0))),
    "restarted": (observing.observe, observe(seen("harness_restarted", identity=BODY, incarnation=2, reason="Error"))),
    "restarted bare": (observing.observe, observe("harness_restarted")),
    "gone": (observing.observe, observe(seen("gone", identity=BODY))),
    "gone bare": (observing.observe, observe("gone")),
    "gone other": (observing.observe, observe(seen("gone", identity="body-2"))),
    "ended": (observing.observe, observe(seen("ended", reason="Evicted"))),
    "replaced": (observing.observe, observe(seen("replaced", identity="body-2"))),
    "exited": (observing.observe, observe(seen("ended", reason="ProcessExited", exit_code=3))),
    "dropped": (observing.observe, observe("watch_dropped")),
    "synced": (observing.observe, observe("synced")),
    "synced and present": (observing.observe, observe("synced", "present")),
    "dropped and synced again": (observing.observe, observe("watch_dropped", "present", "synced")),
}
"""Command, with the decision that it asks for."""
