"""What each report and each command does to each workspace: the machine of a workspace, written down once more.

An outcome is a refusal (`! code`), `nothing` (a repeat of what is already so, or about another body), or the phase of
the workspace and the state of its run afterwards, and the facts that brought them there, in order. Under each outcome
stand the situations that have it. No outcome stands for "all others".
"""

OVER = "destroyed, lost, lost kept, lost teardown, lost destroyed, provision_failed, provision_failed teardown"
UNBORN = "placing, placing pod, waiting, provisioning, provisioning pod, provisioning unseen, attaching"
NAMELESS = "placing, placing pod, waiting, provisioning, provisioning pod, provisioning unseen"
STOOD_ON = "running, running again, unknown, kept"
PLACING = "placing, placing pod, waiting"
LEAVING = "teardown, reaped"
RESTING = "destroyed, lost, lost kept, lost destroyed, provision_failed"

FAULTED = "provision_failed queued: ProvisionFaulted AttemptEnded LeaseRevoked"
LOST = "lost lost: WorkspaceLost AttemptEnded RunSettled LeaseRevoked"

TABLE: dict[str, dict[str, str]] = {
    "wait for room": {
        "placing running: WorkspaceWaiting": "placing, placing pod",
        "nothing": "waiting",
        "! wrong_phase": f"provisioning, provisioning pod, provisioning unseen, attaching, {STOOD_ON}, {LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "provision": {
        "provisioning running: WorkspaceProvisioning": f"{PLACING}",
        "nothing": f"provisioning, provisioning pod, provisioning unseen, attaching, {STOOD_ON}",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "provision body": {
        "attaching running: WorkspaceProvisioning": f"{NAMELESS}",
        "nothing": f"attaching, {STOOD_ON}",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "provision other": {
        "attaching running: WorkspaceProvisioning": f"{NAMELESS}",
        "! identity_changed": f"attaching, {STOOD_ON}",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "attach": {
        "running running: WorkspaceAttached": f"{UNBORN}",
        "nothing": "running, unknown, kept",
        "! incarnation_backwards": "running again",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "attach again": {
        "running running: WorkspaceAttached": f"{UNBORN}",
        "running running: HarnessRestarted": "running, unknown, kept",
        "nothing": "running again",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "attach behind": {
        "running running: WorkspaceAttached": f"{UNBORN}",
        "! incarnation_backwards": f"{STOOD_ON}",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "attach other": {
        "running running: WorkspaceAttached": f"{NAMELESS}",
        "! identity_changed": f"attaching, {STOOD_ON}",
        "! wrong_phase": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "unsee": {
        "nothing": f"{PLACING}, provisioning unseen, unknown, {LEAVING}, {OVER}",
        "provisioning running: ContinuityUnknown": "provisioning, provisioning pod",
        "attaching running: ContinuityUnknown": "attaching",
        "running running: ContinuityUnknown": "running, running again, kept",
    },
    "release": {
        "destroyed running: WorkspaceReleased WorkspaceDestroyed": f"{PLACING}",
        "teardown running: WorkspaceReleased": "provisioning, provisioning pod, "
        f"provisioning unseen, attaching, {STOOD_ON}",
        "nothing": f"{LEAVING}, destroyed, lost teardown, lost destroyed, provision_failed teardown",
        "lost running: WorkspaceReleased": "lost, lost kept",
        "provision_failed running: WorkspaceReleased": "provision_failed",
    },
    "keep": {
        "placing running: WorkspaceReleased": f"{PLACING}",
        "provisioning running: WorkspaceReleased": "provisioning, provisioning pod, provisioning unseen",
        "attaching running: WorkspaceReleased": "attaching",
        "running running: WorkspaceReleased": "running, running again, unknown",
        "nothing": f"kept, {LEAVING}, destroyed, lost kept, lost teardown, lost destroyed, provision_failed teardown",
        "lost running: WorkspaceReleased": "lost",
        "provision_failed running: WorkspaceReleased": "provision_failed",
    },
    "reap": {
        "destroyed running: WorkspaceReaped WorkspaceDestroyed": f"{PLACING}",
        "teardown running: WorkspaceReaped": "provisioning, provisioning pod, "
        "provisioning unseen, attaching, running, running again, unknown",
        "nothing": f"kept, {LEAVING}, destroyed, lost kept, lost teardown, lost destroyed, provision_failed teardown",
        "lost running: WorkspaceReaped": "lost",
        "provision_failed running: WorkspaceReaped": "provision_failed",
    },
    "say gone": {
        "! wrong_phase": f"{PLACING}, provisioning, provisioning pod, provisioning unseen, attaching, {STOOD_ON}, "
        "lost, lost kept, provision_failed",
        "destroyed running: WorkspaceDestroyed": LEAVING,
        "lost running: WorkspaceDestroyed": "lost teardown",
        "provision_failed running: WorkspaceDestroyed": "provision_failed teardown",
        "nothing": "destroyed, lost destroyed",
    },
    "time out": {
        "nothing": f"{PLACING}, provisioning unseen, {STOOD_ON}, {LEAVING}, {OVER}",
        "provision_failed queued: WorkerTimeout ProvisionFaulted AttemptEnded LeaseRevoked": "provisioning, "
        "provisioning pod, attaching",
    },
    "fault": {
        f"{FAULTED}": f"{UNBORN}",
        "nothing": f"{STOOD_ON}, {LEAVING}, {OVER}",
    },
    "present": {
        "running running: WorkspaceAttached": "placing, provisioning",
        "attaching running: WorkspaceProvisioning": "placing pod, waiting, provisioning pod, provisioning unseen",
        "nothing": f"attaching, running, unknown, kept, {LEAVING}",
        "! incarnation_backwards": "running again",
        "! workspace_over": f"{OVER}",
    },
    "present bare": {
        "! invalid": f"{PLACING}, provisioning pod, provisioning unseen",
        "running running: WorkspaceAttached": "provisioning",
        "nothing": f"attaching, {STOOD_ON}, {LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "present other": {
        "running running: WorkspaceAttached": "placing, provisioning",
        "attaching running: WorkspaceProvisioning": "placing pod, waiting, provisioning pod, provisioning unseen",
        "! identity_changed": f"attaching, {STOOD_ON}",
        "nothing": f"{LEAVING}",
        "! workspace_over": f"{OVER}",
    },
    "present behind": {
        "running running: WorkspaceAttached": "placing, provisioning",
        "attaching running: WorkspaceProvisioning": "placing pod, waiting, provisioning pod, provisioning unseen",
        "nothing": f"attaching, {LEAVING}",
        "! incarnation_backwards": f"{STOOD_ON}",
        "! workspace_over": f"{OVER}",
    },
    "restarted": {
        "running running: WorkspaceAttached": "placing, provisioning",
        "attaching running: WorkspaceProvisioning": "placing pod, waiting, provisioning pod, provisioning unseen",
        "nothing": f"attaching, running again, {LEAVING}",
        "running running: HarnessRestarted": "running, unknown, kept",
        "! workspace_over": f"{OVER}",
    },
    "restarted bare": {
        "! invalid": f"{PLACING}, provisioning pod, provisioning unseen",
        "running running: WorkspaceAttached": "provisioning",
        "nothing": f"attaching, {LEAVING}",
        "running running: HarnessRestarted": f"{STOOD_ON}",
        "! workspace_over": f"{OVER}",
    },
    "gone": {
        f"{FAULTED}": f"{UNBORN}",
        f"{LOST}": f"{STOOD_ON}",
        "destroyed running: WorkspaceDestroyed": f"{LEAVING}",
        "nothing": f"{RESTING}",
        "lost running: WorkspaceDestroyed": "lost teardown",
        "provision_failed running: WorkspaceDestroyed": "provision_failed teardown",
    },
    "gone bare": {
        f"{FAULTED}": f"{UNBORN}",
        f"{LOST}": f"{STOOD_ON}",
        "destroyed running: WorkspaceDestroyed": f"{LEAVING}",
        "nothing": f"{RESTING}",
        "lost running: WorkspaceDestroyed": "lost teardown",
        "provision_failed running: WorkspaceDestroyed": "provision_failed teardown",
    },
    "gone other": {
        f"{FAULTED}": f"{NAMELESS}",
        "nothing": f"attaching, {STOOD_ON}, {LEAVING}, {OVER}",
    },
    "ended": {
        f"{FAULTED}": f"{UNBORN}",
        f"{LOST}": f"{STOOD_ON}",
        "destroyed running: WorkspaceDestroyed": f"{LEAVING}",
        "nothing": f"{RESTING}",
        "lost running: WorkspaceDestroyed": "lost teardown",
        "provision_failed running: WorkspaceDestroyed": "provision_failed teardown",
    },
    "replaced": {
        f"{FAULTED}": f"{UNBORN}",
        f"{LOST}": f"{STOOD_ON}",
        "destroyed running: WorkspaceDestroyed": f"{LEAVING}",
        "nothing": f"{RESTING}",
        "lost running: WorkspaceDestroyed": "lost teardown",
        "provision_failed running: WorkspaceDestroyed": "provision_failed teardown",
    },
    "exited": {
        f"{FAULTED}": f"{UNBORN}",
        "lost running: WorkspaceLost": f"{STOOD_ON}",
        "destroyed running: WorkspaceDestroyed": f"{LEAVING}",
        "nothing": f"{RESTING}",
        "lost running: WorkspaceDestroyed": "lost teardown",
        "provision_failed running: WorkspaceDestroyed": "provision_failed teardown",
    },
    "dropped": {
        "nothing": f"{PLACING}, provisioning unseen, unknown, {LEAVING}, {OVER}",
        "provisioning running: ContinuityUnknown": "provisioning, provisioning pod",
        "attaching running: ContinuityUnknown": "attaching",
        "running running: ContinuityUnknown": "running, running again, kept",
    },
    "synced": {
        "nothing": f"{UNBORN}, {STOOD_ON}, {LEAVING}, {OVER}",
    },
    "synced and present": {
        "! invalid": f"{PLACING}, provisioning pod, provisioning unseen",
        "running running: WorkspaceAttached": "provisioning",
        "nothing": f"attaching, running, running again, kept, {LEAVING}",
        "running running: ContinuityRestored": "unknown",
        "! workspace_over": f"{OVER}",
    },
    "dropped and synced again": {
        "! invalid": f"{PLACING}, provisioning pod, provisioning unseen",
        "running running: WorkspaceAttached": "provisioning",
        "nothing": f"attaching, running, running again, kept, {LEAVING}",
        "running running: ContinuityRestored": "unknown",
        "! workspace_over": f"{OVER}",
    },
}
"""Command, then outcome, then the situations that have it."""
