"""The client, written once: this package is the source, `jackline._sync` is generated from it.

`python client/generate_sync.py` rewrites `_sync` by dropping `async` and `await` and renaming what differs; a test
fails when the two are out of step.
"""
