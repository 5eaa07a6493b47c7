"""Write well-known datasets as plain CSV files, as an export of your own data would look.

    python examples/to_csv.py actor tables/actor          # edges.csv and nodes.csv, with a split column
    python examples/to_csv.py mutag tables/mutag          # molecules.csv: SMILES and a class

Then train on the files (the script prints the command for the dataset):

    gpm train tables/actor/edges.csv --nodes tables/actor/nodes.csv --target label --recipe actor
    gpm train tables/mutag/molecules.csv --smiles smiles --target mutagenic --recipe mutag
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gpm.data.named_datasets import load_dataset
from gpm.data.sources import load_task_data
from gpm.data.splits import PARTS, Split
from gpm.graph.coerce import Features

ATOMS = ("C", "N", "O", "F", "I", "Cl", "Br")  # of MUTAG, in the order of its columns
BONDS = ("AROMATIC", "SINGLE", "DOUBLE", "TRIPLE")


def write(path: Path, header: list[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write one CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def name_parts(split: Split, count: int) -> list[str]:
    """Return the split of every instance; empty for instances in no split."""
    words = np.full(count, "", dtype="<U5")
    for part in PARTS:
        words[getattr(split, part)] = part
    return words.tolist()


def write_nodes(name: str, folder: Path, seed: int) -> str:
    """Write a graph with labelled nodes as edges.csv and nodes.csv; return the flags to train on them."""
    data = load_task_data(name, "node")
    graph = data.graph
    directed = graph.census.directed
    pairs = graph.edge_index().T
    if not directed:
        pairs = pairs[pairs[:, 0] <= pairs[:, 1]]  # each edge once
    write(folder / "edges.csv", ["source", "target"], ((f"n{a}", f"n{b}") for a, b in pairs.tolist()))
    assert graph.x is not None
    assert graph.y is not None
    words, parts = [f"x{i}" for i in range(graph.x.shape[1])], name_parts(data.make_split(seed), graph.num_nodes)
    rows = (
        [f"n{node}", *shorten(graph.x, node), f"class {graph.y[node]}", parts[node]] for node in range(graph.num_nodes)
    )
    write(folder / "nodes.csv", ["id", *words, "label", "part"], rows)
    flags = [f"{folder}/edges.csv --nodes {folder}/nodes.csv --target label", *(["--directed"] if directed else [])]
    return " ".join([*flags, *([] if data.metric == "accuracy" else [f"--metric {data.metric}"])])


def shorten(x: Features, node: int) -> list[str]:
    """Format the features of a node with all their digits, integers without a decimal point."""
    row = np.asarray(x[[node]].todense() if hasattr(x, "todense") else x[node]).ravel()
    return [str(int(value)) if value == int(value) else repr(float(value)) for value in row.tolist()]


def write_molecules(name: str, folder: Path, seed: int) -> str:
    """Write the molecules of MUTAG as SMILES in molecules.csv; return the flags to train on them."""
    from rdkit import Chem

    data = load_task_data(name)
    parts = name_parts(data.make_split(seed), data.graph.num_graphs)
    labels = ("no", "yes")
    rows = [
        (Chem.MolToSmiles(draw(one)), labels[int(one.y)], part)
        for one, part in zip(load_dataset(name), parts, strict=True)
    ]
    write(folder / "molecules.csv", ["smiles", "mutagenic", "part"], rows)
    return f"{folder}/molecules.csv --smiles smiles --target mutagenic"


def draw(data: Any) -> Any:
    """Build a molecule from atoms and bonds, with the charges that the dataset leaves out."""
    from rdkit import Chem

    molecule = Chem.RWMol()
    for kind in data.x.argmax(1).tolist():
        molecule.AddAtom(Chem.Atom(ATOMS[kind]))
    for (a, b), kind in zip(data.edge_index.T.tolist(), data.edge_attr.argmax(1).tolist(), strict=True):
        if a < b:
            molecule.AddBond(a, b, getattr(Chem.BondType, BONDS[kind]))
            for atom in (a, b) if BONDS[kind] == "AROMATIC" else ():
                molecule.GetAtomWithIdx(atom).SetIsAromatic(True)
    for atom in molecule.GetAtoms():
        if atom.GetSymbol() == "N" and sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds()) == 4:
            atom.SetFormalCharge(1)
            for bond in atom.GetBonds():  # a nitro group, whose other oxygen has the charge
                other = bond.GetOtherAtom(atom)
                if other.GetSymbol() == "O" and bond.GetBondTypeAsDouble() == 1 and other.GetDegree() == 1:
                    other.SetFormalCharge(-1)
    with suppress(Chem.AtomValenceException):  # two of the 188 have a carbon with five bonds, and keep it
        Chem.SanitizeMol(molecule)
    return molecule


def main() -> None:
    """Read the arguments and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="a named dataset of nodes (actor, twitch-pt, karate, ...), or mutag")
    parser.add_argument("folder", type=Path, help="output folder")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split in the column 'part'")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    writer = write_molecules if arguments.dataset == "mutag" else write_nodes
    print(f"gpm train {writer(arguments.dataset, arguments.folder, arguments.seed)} --seed {arguments.seed}")


if __name__ == "__main__":
    main()
