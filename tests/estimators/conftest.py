"""Fitted estimators that several files ask; whoever changes one takes a copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from gpm import Graph, GraphClassifier, LinkPredictor, NodeClassifier
from tests.estimators.samples import NODES, SMALL, TELLING, make_data, make_parts, make_rings, make_tables


@contextmanager
def _alone() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def fitted() -> NodeClassifier:
    with _alone():
        return NodeClassifier(**SMALL).fit(make_data())


@pytest.fixture(scope="session")
def named() -> NodeClassifier:
    """Fitted on names and text, some of it unknown."""
    edges, x = make_parts()
    adjacency = sp.coo_array((np.ones(edges.shape[1]), edges), shape=(NODES, NODES))
    names = [f"n{i:02}" for i in range(NODES)]
    graph = Graph.from_scipy(adjacency + adjacency.T, x=x.astype(np.float32), names=names)
    labels = np.array(["ant", "bee", "cat"], dtype=object)[TELLING]
    labels[::5] = None
    with _alone():
        return NodeClassifier(**SMALL).fit(graph, pd.Series(labels[::-1], index=names[::-1], name="animal"))


@pytest.fixture(scope="session")
def linked() -> LinkPredictor:
    club = nx.Graph(nx.relabel_nodes(nx.karate_club_graph(), str).edges)
    with _alone():
        return LinkPredictor(**SMALL | {"epochs": 1}).fit(club)


@pytest.fixture(scope="session")
def ringed() -> GraphClassifier:
    with _alone():
        return GraphClassifier(**SMALL | {"epochs": 2}).fit(make_rings(), ["path", "ring"] * 15)


@pytest.fixture(scope="session")
def told() -> NodeClassifier:
    """Fitted on tables with text and numbers."""
    edges, nodes = make_tables()
    nodes = nodes.assign(town=np.array(["Rome", "Oslo"])[np.arange(NODES) % 2], kind=(TELLING == 0).astype(object))
    nodes.loc[::5, "kind"] = None
    with _alone():
        return NodeClassifier(**SMALL).fit(edges, nodes=nodes, target="kind")
