"""Faults that are planted on purpose, to see whether the simulated world finds them."""
