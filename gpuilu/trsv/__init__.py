"""Solve T x = b for triangular T: one file per algorithm, found through the registry in base.py."""
