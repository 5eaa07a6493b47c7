"""Make the paper's tables again: its figures, the runs that belong beside them, and pages that show both."""
