"""Workspaces on Kubernetes: Pods, and the Pods of agent-sandbox Sandboxes.

`shapes` is the small part of the API's objects that matters, `server` speaks HTTP with an API server, `reflector` keeps
a list current by UID, `verdicts` says what a change means, `view` puts pods, sandboxes and nodes together, `outbox`
hands on what was seen, and `observer` does all this under a lease. `provisioner` makes and deletes bodies when asked.
"""
