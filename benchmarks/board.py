"""The board: plain `gpm train`, with all options left open, beside other models on many datasets.

    python benchmarks/board.py run                                     every dataset and model, seeds 0, 1, 2
    python benchmarks/board.py run --only texas usair --models gpm gcn
    python benchmarks/board.py run --hide-test --seeds 100 101         to choose defaults: no test figure is kept
    python benchmarks/board.py table                                   summary, docs/board.md and docs/board.svg

A run is one model on one dataset with one seed, in a process of its own. Its record is kept in the folder `--out`, and
it is not run again while `src` is the same; `--keep` keeps records of other versions too. All models have the same
splits. No recipe is used: data is loaded by name, and passed as an object.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpm.io.atomic import write_json
from gpm.io.environment import find_commit

ROOT = Path(__file__).parents[1]
RESULTS, TUNING = ROOT / "results" / "board", ROOT / "runs" / "board"
SEEDS, TUNING_SEEDS = (0, 1, 2), (100,)
BEGIN, END = "<!-- figures of the board -->", "<!-- end of the board -->"
LIMIT = 300  # seconds of processor time per run
PATIENT = 4  # times as many seconds by the clock, since others may use the processor
LOADED = [
    "gpm.training.start",
    "gpm.training.fit",
    "gpm.training.lightning_module",
    "torch_geometric.datasets",
    "sklearn.ensemble",
]

NETWORKS = ("gpm", "gcn", "gat", "sage")
MODELS = {
    "node": (*NETWORKS, "gcnii", "mlp", "linear", "trees", "propagation"),
    "link": (*NETWORKS, "gcnii", "mlp", "heuristic"),
    "graph": (*NETWORKS, "gin", "mlp", "linear", "trees"),
}
OPTIONAL = {"node": ("appnp",), "link": ("appnp",), "graph": ("gps",)}  # on demand
SIMPLE = {
    "linear": ("linear model on neighbourhood means",), "trees": ("boosted trees",), "propagation": ("label propagation",),
    "heuristic": ("common neighbours", "Adamic-Adar", "preferential attachment"),
}  # fmt: skip

Record = dict[str, Any]


@dataclass(frozen=True)
class Dataset:
    """A row of the board."""

    name: str  # in the catalog
    task: str
    metric: str = "accuracy"
    split: str = "auto"
    seeds: tuple[int, ...] = SEEDS  # that are reported

    @property
    def title(self) -> str:
        """The name on the board, on which a dataset may be twice."""
        return f"{self.name}-link" if self.task == "link" and self.metric == "hits@20" else self.name


NODES = (
    "reed98", "airports-europe", "polblogs", "uai", "chameleon-filtered", "actor", "texas", "wisconsin", "cornell", "cora", "citeseer",
    "pubmed", "photo", "cs", "blog", "flickr-s", "minesweeper", "twitch-pt", "imdb-movies",
)  # fmt: skip
RANKED = ("minesweeper", "twitch-pt")  # by ROC-AUC
ODD_SEEDS = {"minesweeper": (1, 2, 3)}
ODD_SEEDS_WHY = (
    "The mines of Minesweeper were drawn by the permutation that seed 0 splits nodes by: each of its splits has one class, "
    "and cannot be scored."
)
BOARD = {
    dataset.title: dataset
    for dataset in (
        *(
            Dataset(name, "node", "roc_auc" if name in RANKED else "accuracy", "60/20/20", ODD_SEEDS.get(name, SEEDS))
            for name in NODES
        ),
        *(Dataset(name, "link", "hits@20") for name in ("cora", "citeseer", "pubmed")),
        *(Dataset(name, "link", "roc_auc") for name in ("usair", "yeast", "ns")),
        *(Dataset(name, "graph", split="80/10/10") for name in ("mutag", "proteins", "nci1", "enzymes", "imdb-b")),
        Dataset("esol", "graph", "rmse", "80/10/10"),
    )
}
# Not on the board: for a quick trial.
EXTRA = {"karate": Dataset("karate", "node", split="60/20/20"), "celegans": Dataset("celegans", "link", "roc_auc")}


@dataclass(frozen=True)
class Job:
    """One run to do."""

    dataset: Dataset
    model: str
    seed: int
    hide_test: bool = False
    limit: int = LIMIT

    @property
    def key(self) -> tuple[str, str, int]:
        return self.dataset.title, self.model, self.seed


def train_model(job: Job) -> Record:
    """Train a network with its defaults. The simple baselines, which `gpm train` adds, are jobs of their own."""
    from gpm import Run
    from gpm.data.sources import load_task_data
    from gpm.training import simple_baselines
    from gpm.training.start import train

    simple_baselines.score_baselines = lambda *_, **__: {}  # in this process alone
    data, metric = load_task_data(job.dataset.name, job.dataset.task), job.dataset.metric
    options = {} if job.model == "gpm" else {"model": job.model}
    with tempfile.TemporaryDirectory() as scratch:
        clock = Clock()
        run = train(
            data, out=Path(scratch) / "run", task=job.dataset.task, metric=metric, split=job.dataset.split,
            seed=job.seed, threads=1, quiet=True, **options,
        )  # fmt: skip
        seconds = clock.read()
        assert isinstance(run, Run)
        found = run.result
    return {
        "val": found["val"][metric], "test": found["test"][metric], "seconds": seconds,
        "epochs": found["epochs"], "best_epoch": found["best_epoch"], "split": found["split_digest"],
    }  # fmt: skip


def score_simple(job: Job) -> Record:
    """Score simple baselines on the same split; of several, the validation split chooses one."""
    from gpm.config import Config
    from gpm.data.sources import load_task_data
    from gpm.tasks.metrics import METRICS
    from gpm.training.prepare import Training
    from gpm.training.simple_baselines import score_baselines

    wanted, lines = job.dataset, Lines()
    data = load_task_data(wanted.name, wanted.task)
    config = Config().with_(task=wanted.task, metric=wanted.metric, split=wanted.split, seed=job.seed)
    training, clock = Training.of(config, data), Clock()
    scores = score_baselines(data, training.task, training.split, trees=True, only=SIMPLE[job.model])
    if not scores:
        raise RuntimeError(" ".join(lines.said) or "it was left out")
    sign = 1 if METRICS[wanted.metric].larger else -1
    name, best = max(scores.items(), key=lambda item: sign * item[1]["val"])
    return {
        "val": best["val"], "test": best["test"], "seconds": clock.read(), "epochs": None, "best_epoch": None,
        "split": training.split.digest, "chosen": name,
    }  # fmt: skip


class Clock:
    """Seconds since it was made: by the clock, and of the processor."""

    def __init__(self) -> None:
        self.began = time.monotonic(), time.process_time()

    def read(self) -> dict[str, float]:
        return {
            "wall": round(time.monotonic() - self.began[0], 2),
            "cpu": round(time.process_time() - self.began[1], 2),
        }


class Lines(logging.Handler):
    """What gpm logs about baselines that it leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        logging.getLogger("gpm").addHandler(self)
        logging.getLogger("gpm").setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        if "left out" in record.getMessage():
            self.said.append(record.getMessage())


def work(job: Job, answer: Any) -> None:
    """Do a run in a process of its own, which the operating system ends at the limit, and send its record."""
    logging.getLogger("gpm").propagate = False  # a log line may have a test figure
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + job.limit
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        found = (score_simple if job.model in SIMPLE else train_model)(job)
        answer.send({"status": "done"} | found)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        answer.send({"status": "failed", "error": f"{type(error).__name__}: {str(error)[:500]} ({where})"})


def run_job(job: Job, facts: Record) -> Record:
    """Run a job in a process of its own under its limit, and return its record."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    ours, theirs = context.Pipe(duplex=False)
    process, began = context.Process(target=work, args=(job, theirs), daemon=True), time.monotonic()
    process.start()
    theirs.close()
    late = not ours.poll(PATIENT * job.limit)
    try:
        found = {"status": "time limit"} if late else ours.recv()
    except EOFError:  # it was ended
        process.join()
        ended = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL) and time.monotonic() - began > 0.9 * job.limit
        found = {"status": "time limit"} if ended else {"status": "failed", "error": f"exit code {process.exitcode}"}
    if late:
        process.kill()
    process.join()
    if found["status"] == "time limit":
        found |= {"limit": job.limit, "seconds": {"wall": round(time.monotonic() - began, 2), "cpu": float(job.limit)}}
    return make_record(job, found, facts)


def make_record(job: Job, found: Record, facts: Record) -> Record:
    """Return what is stored of a run; a hidden test figure is dropped here."""
    title, model, seed = job.key
    name = {"dataset": title, "task": job.dataset.task, "model": model, "metric": job.dataset.metric, "seed": seed}
    kept = {key: value for key, value in found.items() if key != "test" or not job.hide_test}
    return name | kept | facts | {"date": time.strftime("%Y-%m-%d")}


class Records:
    """The records in a folder: a file per dataset, in which each has a line of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> list[Record]:
        files = sorted(self.folder.glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]

    def add(self, record: Record) -> None:
        """Store a record in place of an earlier one of the same dataset, model and seed."""
        path = self.folder / f"{record['dataset']}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [each for each in map(json.loads, lines) if key_of(each) != key_of(record)]
        rows = sorted([*kept, record], key=key_of)
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        scratch.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        scratch.replace(path)


def key_of(record: Record) -> tuple[str, str, int]:
    return record["dataset"], record["model"], record["seed"]


def list_jobs(datasets: Iterable[Dataset], models: Iterable[str], seeds: Sequence[int] = ()) -> Iterator[Job]:
    """Yield the jobs, one whole board per seed, by default those that are reported; models of other tasks are left out."""
    datasets = list(datasets)
    for turn in range(len(seeds or SEEDS)):
        for dataset in datasets:
            usual = MODELS[dataset.task]
            for model in models or usual:
                if model in (*usual, *OPTIONAL[dataset.task]):
                    yield Job(dataset, model, (seeds or dataset.seeds)[turn])


def find_missing(jobs: Iterable[Job], records: Iterable[Record], commit: str, *, keep: bool = False) -> list[Job]:
    """Return the jobs without a record of this commit, with `keep` of any; a test figure may not be missing from it."""
    there = {key_of(each): each for each in records if keep or each["commit"] == commit}

    def is_done(job: Job) -> bool:
        record = there.get(job.key)
        return record is not None and (job.hide_test or record["status"] != "done" or "test" in record)

    return [job for job in jobs if not is_done(job)]


def describe_versions() -> dict[str, str]:
    from gpm.io.environment import describe_environment

    facts, packages = describe_environment(), ("torch", "torch_geometric", "lightning", "numba", "numpy", "scipy")
    return {"gpm": facts["gpm"], "python": facts["python"]} | {name: facts["packages"][name] for name in packages}


def run_board(jobs: list[Job], records: Records, facts: Record, at_once: int) -> None:
    """Run jobs, some at once, and store each record as soon as it is there."""
    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(run_job, job, facts) for job in jobs]
        try:
            for number, future in enumerate(as_completed(futures), 1):
                record = future.result()
                records.add(record)
                print(f"{number}/{len(jobs)} {describe_record(record)}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def describe_record(record: Record) -> str:
    """Return a line with the figures of a record; a hidden one is not in it."""
    if record["status"] != "done":
        figures = record.get("error", record["status"])
    else:
        shown = (f"{part} {record[part]:.4f}" for part in ("val", "test") if part in record)
        figures = f"{record['metric']} {', '.join(shown)} ({record['seconds']['cpu']:.0f} s)"
    return f"{record['dataset']} {record['model']} seed {record['seed']}: {figures}"


def find_reported(records: Records, seeds: Sequence[int] = ()) -> list[Record]:
    """Return the records of the board of some seeds, by default those that are reported."""
    return [
        each for each in records.read()
        if each["dataset"] in BOARD and each["seed"] in (seeds or BOARD[each["dataset"]].seeds)
    ]  # fmt: skip


def write_pages(records: Records, seeds: Sequence[int] = ()) -> None:
    """Write the summary beside the records, the page and the picture of the docs, and the table of the README."""
    import board_summary

    reported = find_reported(records, seeds)
    summary = board_summary.summarise(reported, MODELS, list(BOARD))
    if reported:
        write_json(records.folder / "summary.json", summary)
        board_summary.draw(summary, ROOT / "docs" / "board.svg")
    (ROOT / "docs" / "board.md").write_text(board_summary.describe(summary, ODD_SEEDS_WHY), encoding="utf-8")
    if reported and records.folder == RESULTS and not seeds:
        readme = ROOT / "README.md"
        before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
        short = board_summary.describe_short(summary)
        readme.write_text(f"{before}{BEGIN}\n{short}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--only", nargs="+", choices=[*BOARD, *EXTRA], default=list(BOARD), metavar="DATASET")
    every = sorted({model for group in (MODELS, OPTIONAL) for models in group.values() for model in models})
    parser.add_argument("--models", nargs="+", choices=every, default=[], help="default: those of the task")
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[], help="default: 0 1 2 (minesweeper 1 2 3); with --hide-test 100"
    )
    parser.add_argument("--hide-test", action="store_true", help="neither print nor store test figures")
    parser.add_argument("--keep", action="store_true", help="also keep records of other commits")
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds of processor time per run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--out", type=Path, help="default: results/board; with --hide-test runs/board")
    given = parser.parse_args()
    seeds = given.seeds or (TUNING_SEEDS if given.hide_test else ())
    if given.hide_test and min(seeds) < 100:
        parser.error("--hide-test is for choosing defaults, on seeds that are not reported: take 100 and up.")
    records = Records(given.out or (TUNING if given.hide_test else RESULTS))
    if given.what == "table":
        write_pages(records, seeds)
        return
    datasets = [(BOARD | EXTRA)[title] for title in given.only]
    jobs = [
        replace(job, hide_test=given.hide_test, limit=given.limit) for job in list_jobs(datasets, given.models, seeds)
    ]
    facts = {"commit": find_commit(), "versions": describe_versions()}
    missing = find_missing(jobs, records.read(), facts["commit"], keep=given.keep)
    print(f"{len(missing)} runs to do, {len(jobs) - len(missing)} are there (commit {facts['commit']})", flush=True)
    run_board(missing, records, facts, given.jobs)


if __name__ == "__main__":
    main()
