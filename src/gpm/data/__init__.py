"""Data of tasks, from whatever the user names."""
