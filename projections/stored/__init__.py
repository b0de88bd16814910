"""Stored read models: one question each, in SQL, rebuilt from the journal at will.

All of them live in one file of their own, ``projections.sqlite3``, beside the journal and never in it: nothing in that
file is the truth, and deleting it loses nothing but the time to fold the journal again.
"""
