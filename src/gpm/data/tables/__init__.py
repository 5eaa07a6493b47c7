"""The user's own tables: read, checked, and made into a graph folder; see `gpm.data.tables.importer`."""

from gpm.data.tables.importer import import_tables, show_tables

__all__ = ["import_tables", "show_tables"]
