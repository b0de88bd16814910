"""Measurements: ratios against a reference in the same run, never part of a test."""
