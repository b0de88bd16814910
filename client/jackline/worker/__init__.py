"""The worker runtime: everything between "this run is yours under fence 7" and "it has ended".

engine      registers, claims, starts executions, stops in good order
staying     renews every held lease with one call; three answers: renewed, lost, nothing
stream      the same over a WebSocket, which also tells the service at once when the worker is gone
handlers    executes runs with Python functions (the SDK's `Worker`)
command     executes runs with commands (`jackline work`), through a keeper process per run
"""
