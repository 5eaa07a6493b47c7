"""The user's own tables: read, checked, and made into a graph folder; see `gpm.importer.assemble`."""

from gpm.importer.assemble import import_tables, show_tables

__all__ = ["import_tables", "show_tables"]
