"""Chemical names of patterns of atoms: rings and functional groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpm.patterns.shape_names import name_shape

Bonds = Mapping[tuple[int, int], str]
_FIVE = {"N": "pyrrole-like ring", "O": "furan-like ring", "S": "thiophene-like ring"}
_PAIRS = {("CN", "triple"): "cyano group", ("CO", "double"): "carbonyl group"}


def name_chemical(
    adjacency: NDArray, kinds: Sequence[str], bonds: Bonds | None = None, flat: Sequence[bool] | None = None
) -> str | None:
    """Name a ring or a functional group by its edges `[n, n]` and elements `[n]`; return None for any other pattern.

    Bonds (single, double, triple or aromatic, by the two ends, the lower first), if known, must fit the name. Without
    them the name is that of the most likely group, and patterns that only bonds can tell apart have no name. Flat atoms
    `[n]` have an aromatic bond, or a double bond to C or N, anywhere in the molecule; by default, in the pattern.
    """
    if bonds is not None and flat is None:
        ends = {end for pair, bond in bonds.items() if bond in ("double", "aromatic") for end in pair}
        flat = [i in ends for i in range(len(kinds))]
    return _name_ring(name_shape(adjacency), kinds, bonds, flat) or _name_group(adjacency, kinds, bonds)


def find_centre(adjacency: NDArray) -> int:
    """Return the centre of a star of two leaves or more; -1 if the graph `[n, n]` is no star."""
    degrees = np.asarray(adjacency).astype(bool).sum(axis=1)
    centre, leaves = int(degrees.argmax()), len(degrees) - 1
    return centre if leaves >= 2 and degrees[centre] == leaves and degrees.sum() == 2 * leaves else -1


def _name_ring(shape: str, kinds: Sequence[str], bonds: Bonds | None, flat: Sequence[bool] | None) -> str | None:
    others = set(kinds) - {"C"}
    carbons = sum(kind == "C" for kind in kinds)
    if shape == "pentagon" and carbons == 4 and bonds is not None:
        other = others.pop()
        return _FIVE.get(other) if _is_aromatic(kinds, bonds, flat, gives=other) else None
    if shape not in ("hexagon", "two hexagons") or others - {"N"} or 2 * carbons < len(kinds):
        return None
    if not _is_aromatic(kinds, bonds, flat):
        return None
    if shape == "hexagon":
        return "pyridine-like ring" if others else "benzene-like ring"
    return "quinoline-like rings" if others else "naphthalene-like rings"


def _is_aromatic(kinds: Sequence[str], bonds: Bonds | None, flat: Sequence[bool] | None, gives: str = "") -> bool:
    """Return whether a ring is aromatic; without bonds, whether it may be.

    Either all bonds are aromatic; or, written as alternating single and double bonds, all atoms are flat except the one
    that gives its own electrons. Some of the double bonds may belong to rings that share atoms with this one.
    """
    if bonds is None:
        return True
    counts = Counter(bonds.values())
    if "aromatic" in counts:
        return len(counts) == 1
    assert flat is not None
    taking = [is_flat for kind, is_flat in zip(kinds, flat, strict=True) if kind != gives]
    return all(taking) and counts["double"] > 0


def _name_group(adjacency: NDArray, kinds: Sequence[str], bonds: Bonds | None) -> str | None:
    if len(kinds) == 2 and bonds is not None:
        return _PAIRS.get(("".join(sorted(kinds)), bonds.get((0, 1), "")))
    centre = find_centre(adjacency)
    if centre < 0:
        return None
    leaves = Counter(kind for i, kind in enumerate(kinds) if i != centre)
    doubles = sum(bond == "double" and "O" in (kinds[a], kinds[b]) for (a, b), bond in (bonds or {}).items())
    return _name_star(kinds[centre], leaves, None if bonds is None else doubles)


def _name_star(centre: str, leaves: Counter[str], doubles: int | None) -> str | None:
    """Name a group by its centre, the atoms around it, and the number of O with a double bond to it, if known."""
    size, oxygens = leaves.total(), leaves["O"]
    one_or_carbon = size == 2 or (size == 3 and leaves["C"] > 0)
    if centre == "N" and oxygens == 2 and size <= 3 and doubles != 0:
        return "nitro group"
    if centre == "S" and oxygens >= 2 and size <= 4 and doubles in (None, 2):
        return "sulfonyl group"
    if centre == "P" and oxygens == 4 == size:
        return "phosphate-like group"
    if centre != "C":
        return None
    if leaves["F"] == 3 and size <= 4:
        return "trifluoromethyl group"
    if one_or_carbon and oxygens == 2 and doubles in (None, 1):
        return "carboxyl-like group"
    if one_or_carbon and oxygens == 1 == leaves["N"] and doubles in (None, 1):
        return "amide-like group"
    return None
