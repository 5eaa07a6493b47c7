"""Reproduce the paper's tables: its figures, the runs that belong beside them, and pages that show both."""
