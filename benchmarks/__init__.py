"""Measurements; each module has `run(quick=False)`."""
