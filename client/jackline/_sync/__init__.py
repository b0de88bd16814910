"""The blocking client: generated from `jackline._async` by `client/generate_sync.py`; do not edit."""
