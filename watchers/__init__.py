"""Observers of workspaces that are not on the holder's machine: they report what they see, and never decide.

An observer knows a backend (`kubernetes/` so far) and the service's HTTP interface, nothing else of the service: it can
run anywhere, beside the service or in the cluster it watches. Directories and processes are observed by the worker
that holds them, in the client's distribution.
"""
