"""Graphs from names and files."""

from gpm.data.catalog import data_root, dataset_names, load_dataset
from gpm.data.graph_files import load_graph

__all__ = ["data_root", "dataset_names", "load_dataset", "load_graph"]
