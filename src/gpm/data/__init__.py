"""Graphs from names and files."""

from gpm.data.catalog import dataset_names, load_dataset
from gpm.data.graph_files import load_graph
from gpm.io.cache import data_root

__all__ = ["data_root", "dataset_names", "load_dataset", "load_graph"]
