"""The report of a run: its scores in detail as numbers, charts and one page."""
