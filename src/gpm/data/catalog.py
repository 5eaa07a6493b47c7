"""The catalog of named datasets: where their files are, and how each is used.

`GPM_DATA` names the data root (by default `gpm` in the user's cache folder). `GPM_RAW` may name a read-only folder of
raw files in PyG's layout; files are copied from there before anything is downloaded.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpm.errors import GpmError, nearest
from gpm.io.cache import data_root
from gpm.io.manifest import HEADER


@dataclass(frozen=True)
class Entry:
    """A named dataset, and how it is used."""

    title: str  # name for messages and reports
    loader: str  # the class of `torch_geometric.datasets`; of our own: "ogb", "ogbl", "file" or a synthetic graph
    root: str = ""  # folder below the data root that the loader gets
    options: tuple[tuple[str, str | bool], ...] = ()  # further arguments of the loader
    raw: str = ""  # folder below the data root that holds `raw`; empty if there are no files
    nodes: int = 0  # published number, over all graphs; rounded where only the mean is published
    undirected: bool = False  # `load_dataset` adds the reverse of every edge, as the usual benchmark does
    featureless: bool = False  # the features of the file are the identity, which says nothing: they are left out
    split: str = "60/20/20"  # or other shares, folds such as "10-fold", "scaffold", or "public" if the data has one
    metric: str = "accuracy"  # or "roc_auc" or "ap" for classes, "mae" or "rmse" for values, "hits@20" etc. for links
    task: str = "node"  # or "link" or "graph"
    graphs: int = 0  # in a collection
    classes: tuple[str, ...] = ()  # names of the classes, in order; empty if they have numbers only
    copies: int = 0  # each published graph comes as so many copies with permuted nodes; 0: as it is
    ids: str = ""  # file with a published split that is not part of the dataset, see `find_file`
    least_bytes: int = 0  # smallest total size of the raw files, where a smaller dataset has files of the same names
    features: str = ""  # file with a sparse SciPy matrix that replaces the features of the loader, see `find_file`

    def option(self, name: str) -> str:
        """Return one of the options as text."""
        return str(dict(self.options)[name])


def _named(
    title: str, loader: str, name: str, nodes: int, split: str, *, root: str = "", folder: str = "", **fields: Any
) -> Entry:
    """Make an entry whose loader takes a name and keeps its files in a folder of that name."""
    root = root or loader
    return Entry(title, loader, root, (("name", name),), f"{root}/{folder or name}", nodes, split=split, **fields)


def _mixed(title: str, nodes: int, metric: str = "accuracy") -> Entry:
    folder = title.lower().replace("-", "_")
    return _named(title, "HeterophilousGraphDataset", title, nodes, "public", folder=folder, metric=metric)


def _pages(title: str, nodes: int) -> Entry:
    return _named(title, "WebKB", title, nodes, "public", folder=title.lower(), undirected=True)


def _wikipedia(title: str, nodes: int) -> Entry:
    folder = f"{title.lower()}/geom_gcn"
    return _named(title, "WikipediaNetwork", title.lower(), nodes, "public", folder=folder, undirected=True)


def _airports(region: str, nodes: int) -> Entry:
    fields: dict[str, Any] = {"folder": region.lower(), "undirected": True, "featureless": True}
    return _named(f"Airports-{region}", "Airports", region, nodes, "60/20/20", **fields)


def _twitch(country: str, nodes: int) -> Entry:
    return _named(f"Twitch-{country}", "Twitch", country, nodes, "50/25/25", metric="roc_auc")


def _ogb(title: str, name: str, nodes: int) -> Entry:
    return _named(title, "ogb", name, nodes, "public", root="OGB", folder=f"ogbn_{name}", undirected=True)


def _links(name: str, nodes: int, metric: str) -> Entry:
    options = {"root": "OGB", "folder": f"ogbl_{name}", "metric": metric, "task": "link"}
    return _named(f"ogbl-{name}", "ogbl", name, nodes, "public", **options)


def _graphs(name: str, graphs: int, nodes: int, split: str = "80/10/10") -> Entry:
    return _named(name, "TUDataset", name, nodes, split, task="graph", graphs=graphs)


def _file(title: str, root: str, file: str, nodes: int, **fields: Any) -> Entry:
    return Entry(title, "file", root, (("file", file),), root, nodes, **fields)


def _pairs(title: str, nodes: int) -> Entry:
    return _file(title, "LinkSets", f"{title}.mat", nodes, split="85/5/10", metric="roc_auc", task="link")


def _zinc(title: str, graphs: int, nodes: int, subset: bool) -> Entry:
    fields: dict[str, Any] = {"split": "public", "metric": "mae", "task": "graph"}
    fields |= {} if subset else {"least_bytes": 100_000_000}
    return Entry(title, "ZINC", "ZINC", (("subset", subset),), "ZINC", nodes, graphs=graphs, **fields)


def _molecules(title: str, graphs: int, nodes: int, metric: str = "roc_auc") -> Entry:
    name = title.lower()
    return _named(title, "MoleculeNet", name, nodes, "scaffold", metric=metric, task="graph", graphs=graphs)


# TreeNeighborsMatching, by depth: nodes of all trees.
_TREES = {2: 672, 3: 120_000, 4: 496_000, 5: 2_016_000, 6: 4_064_000, 7: 8_160_000}
_MOTIFS = ("base", "house roof", "house middle", "house bottom", "six-cycle", "decoy")

CATALOG = {
    "motifs": Entry("Planted motifs", "motifs", nodes=2120, classes=_MOTIFS),
    "fraud": Entry("Planted fraud", "fraud", nodes=8000, metric="ap", classes=("ok", "fraud")),
    "random": Entry("Random graph", "random", nodes=2000, split="80/5/15", metric="roc_auc", task="link"),
    **{
        f"trees-{depth}": Entry(f"Trees of depth {depth}", "trees", options=(("depth", str(depth)),), nodes=nodes)
        for depth, nodes in _TREES.items()
    },
    "karate": Entry("Karate Club", "KarateClub", nodes=34),
    "cora": _named("Cora", "Planetoid", "Cora", 2708, "public"),
    "citeseer": _named("CiteSeer", "Planetoid", "CiteSeer", 3327, "public"),
    "pubmed": _named("PubMed", "Planetoid", "PubMed", 19717, "public"),
    "computers": _named("Computers", "Amazon", "Computers", 13752, "60/20/20", ids="Splits/amazon-computer_split.npz"),
    "photo": _named("Photo", "Amazon", "Photo", 7650, "60/20/20", ids="Splits/amazon-photo_split.npz"),
    "cs": _named("CS", "Coauthor", "CS", 18333, "60/20/20", ids="Splits/coauthor-cs_split.npz"),
    "physics": _named("Physics", "Coauthor", "Physics", 34493, "60/20/20"),
    "corafull": Entry("CoraFull", "CoraFull", "CoraFull", raw="CoraFull/cora", nodes=19793),
    "wikics": Entry("WikiCS", "WikiCS", "WikiCS", (("is_undirected", True),), "WikiCS", 11701, split="public"),
    "arxiv": _ogb("Arxiv", "arxiv", 169343),
    "products": _ogb("Products", "products", 2449029),
    "blog": _named("BlogCatalog", "AttributedGraphDataset", "BlogCatalog", 5196, "50/25/25", folder="blogcatalog"),
    "flickr-s": _named("Flickr-S", "AttributedGraphDataset", "Flickr", 7575, "50/25/25", folder="flickr"),
    "flickr": Entry("Flickr", "Flickr", "Flickr", raw="Flickr", nodes=89250, split="public"),
    "deezer": Entry("Deezer", "DeezerEurope", "DeezerEurope", raw="DeezerEurope", nodes=28281, split="50/25/25"),
    "deezer-artists": Entry(
        "Deezer-artists",
        "DeezerEurope",
        "DeezerEurope",
        raw="DeezerEurope",
        nodes=28281,
        split="50/25/25",
        features="DeezerEurope/multihot_csr.npz",
    ),
    "actor": Entry("Actor", "Actor", "Actor", raw="Actor", nodes=7600, undirected=True, split="public"),
    "chameleon": _wikipedia("Chameleon", 2277),
    "squirrel": _wikipedia("Squirrel", 5201),
    "cornell": _pages("Cornell", 183),
    "texas": _pages("Texas", 183),
    "wisconsin": _pages("Wisconsin", 251),
    "roman-empire": _mixed("Roman-empire", 22662),
    "amazon-ratings": _mixed("Amazon-ratings", 24492),
    "minesweeper": _mixed("Minesweeper", 10000, "roc_auc"),
    "tolokers": _mixed("Tolokers", 11758, "roc_auc"),
    "questions": _mixed("Questions", 48921, "roc_auc"),
    "twitch-de": _twitch("DE", 9498),
    "twitch-en": _twitch("EN", 7126),
    "twitch-es": _twitch("ES", 4648),
    "twitch-fr": _twitch("FR", 6551),
    "twitch-pt": _twitch("PT", 1912),
    "twitch-ru": _twitch("RU", 4385),
    "acm": _file("ACM", "CitationDA", "acmv9.npz", 9360),
    "dblp": _file("DBLP", "CitationDA", "dblpv7.npz", 5484),
    "reed98": _named("Reed98", "LINKXDataset", "reed98", 962, "60/20/20"),
    "airports-europe": _airports("Europe", 399),
    "polblogs": _file("PolBlogs", "NetworkFiles", "polblogs.npz", 1490, featureless=True),
    "uai": _file("UAI2010", "NetworkFiles", "uai.npz", 3067),
    "chameleon-filtered": _file("Chameleon-F", "WikipediaFiltered", "chameleon_filtered.npz", 890, split="public"),
    "imdb-movies": Entry("IMDB movies", "IMDB", "IMDB", raw="IMDB", nodes=11616, split="public"),
    "usair": _pairs("USAir", 332),
    "yeast": _pairs("Yeast", 2375),
    "ns": _pairs("NS", 1589),
    "celegans": _pairs("Celegans", 297),
    "ogbl-collab": _links("collab", 235868, "hits@50"),
    "ogbl-ppa": _links("ppa", 576289, "hits@100"),
    "ogbl-ddi": _links("ddi", 4267, "hits@20"),
    "imdb-b": _graphs("IMDB-BINARY", 1000, 19773),
    "imdb-m": _graphs("IMDB-MULTI", 1500, 19502),
    "collab": _graphs("COLLAB", 5000, 372474),
    "reddit-b": _graphs("REDDIT-BINARY", 2000, 859254),
    "reddit-m5k": _graphs("REDDIT-MULTI-5K", 4999, 2542000),
    "reddit-m12k": _graphs("REDDIT-MULTI-12K", 11929, 4669000),
    "mutag": replace(_graphs("MUTAG", 188, 3371), classes=("not mutagenic", "mutagenic")),
    "proteins": _graphs("PROTEINS", 1113, 43471),
    "nci1": _graphs("NCI1", 4110, 122747),
    "enzymes": _graphs("ENZYMES", 600, 19580),
    "dd": _graphs("DD", 1178, 334925),
    "zinc": _zinc("ZINC", 12000, 278000, True),
    "zinc-full": _zinc("ZINC-Full", 249456, 5775000, False),
    "esol": _molecules("ESOL", 1128, 14991, "rmse"),
    "freesolv": _molecules("FreeSolv", 642, 5600, "rmse"),
    "lipo": _molecules("Lipo", 4200, 113600, "rmse"),
    "bbbp": _molecules("BBBP", 2039, 49068),
    "bace": _molecules("BACE", 1513, 51600),
    "hiv": _molecules("HIV", 41127, 1049163),
    "tox21": _molecules("Tox21", 7831, 145500),
    "toxcast": _molecules("ToxCast", 8597, 161100),
    "sider": _molecules("SIDER", 1427, 48000),
    "clintox": _molecules("ClinTox", 1484, 38700),
    "exp": _graphs("EXP", 1200, 53336, "10-fold"),
    "csl": _named("CSL", "GNNBenchmarkDataset", "CSL", 6150, "public", task="graph", graphs=150),
    # 15 graphs, one of each class
    "sr25": replace(_graphs("SR25", 300, 7500, "60/20/20"), copies=20),
}
_ALIASES = {
    "blogcatalog": "blog", "computer": "computers", "ogbn-arxiv": "arxiv", "ogbn-products": "products",
    "imdb-binary": "imdb-b", "imdb-multi": "imdb-m", "reddit-binary": "reddit-b", "reddit-multi-5k": "reddit-m5k",
    "reddit-multi-12k": "reddit-m12k", "d&d": "dd", "zinc-12k": "zinc", "lipophilicity": "lipo",
}  # fmt: skip


def spell(name: str) -> str:
    """Return a dataset's name as the catalog spells it; an unknown name in lower case."""
    usual = name.lower().replace("_", "-")
    return _ALIASES.get(usual, usual)


def find_entry(name: str) -> Entry:
    """Return the entry of a named dataset."""
    entry = CATALOG.get(spell(name))
    if entry is None:
        raise GpmError(f"No dataset is named {name!r}.{nearest(spell(name), CATALOG)} Known: {', '.join(CATALOG)}.")
    return entry


def find_named(source: object) -> Entry | None:
    """Return the entry that a source names, unless a file or a saved graph of that name is there."""
    if not isinstance(source, (str, Path)) or (entry := CATALOG.get(spell(str(source)))) is None:
        return None
    path = Path(source).expanduser()
    return None if path.is_file() or (path / HEADER).exists() else entry


def _roots() -> list[Path]:
    return [data_root(), *map(Path, filter(None, [os.environ.get("GPM_RAW")]))]


def has_raw(entry: Entry) -> bool:
    """Check whether raw files are in the data root or below `GPM_RAW`."""
    if entry.loader == "file":
        return find_file(f"{entry.raw}/{entry.option('file')}") is not None
    folders = [root / entry.raw / "raw" for root in _roots()]
    has_features = not entry.features or find_file(entry.features) is not None
    filled = [folder for folder in folders if folder.is_dir() and any(folder.iterdir())]
    return has_features and any(is_whole(entry, folder) for folder in filled)


def is_whole(entry: Entry, folder: Path) -> bool:
    """Check whether a folder of raw files may be that of a dataset, and not of a smaller one with the same names."""
    least = entry.least_bytes
    return not least or sum(file.stat().st_size for file in folder.glob("*") if file.is_file()) >= least


def find_file(name: str) -> Path | None:
    """Return a file below the data root or `GPM_RAW`; None if it is in neither."""
    files = (root / name for root in _roots())
    return next((file for file in files if file.is_file()), None)


def is_stored(folder: Path) -> bool:
    """Return whether a dataset of OGB was read before."""
    return (folder / "graph/graph.json").is_file() and (folder / "split.npz").is_file()


def find_compact(entry: Entry) -> Path | None:
    """Return the file below `GPM_RAW` that replaces the large text files of a collection, if those are missing."""
    file = Path(os.environ.get("GPM_RAW") or "") / f"{entry.title}.compact.npz"
    usable = entry.loader == "TUDataset" and os.environ.get("GPM_RAW") and file.is_file()
    return file if usable and not has_raw(entry) else None


def copy_raw(folder: str) -> None:
    """Copy the files of a folder that are below `GPM_RAW` and not in the data root, each atomically."""
    raw = os.environ.get("GPM_RAW")
    source, target = Path(raw or "") / folder, data_root() / folder
    if not raw or not source.is_dir():
        return
    for file in source.rglob("*"):
        copy = target / file.relative_to(source)
        if not file.is_file() or copy.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        scratch = copy.with_name(f".{copy.name}.{os.getpid()}")
        shutil.copyfile(file, scratch)  # contents only: the source may be read-only
        scratch.replace(copy)
