"""An opened run: copies keep what is loaded, and other data knows the training data."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpm import GpmError, Run
from tests.small_runs import folder_of, make_graph, run_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_run_that_was_moved_keeps_what_it_has_loaded() -> None:
    run = run_of("classes")
    own = run.predictor, run.folder
    moved = run.moved_to(Path("elsewhere"))
    assert (moved.predictor, moved.folder) == (own[0], Path("elsewhere"))
    assert (run.predictor, run.folder) == own
    assert moved.home is moved


def test_other_options_leave_the_run_as_it_was() -> None:
    run = run_of("classes")
    changed = run.with_config(run.config.with_(data="elsewhere"))
    assert changed.config.data == "elsewhere" != run.config.data
    assert changed.predictor is run.predictor


def test_a_run_on_other_data_has_no_split_but_a_home() -> None:
    run = run_of("classes")
    other = Run.open(folder_of("classes"), make_graph(), device="cpu", other=True, home=run)
    assert other.home is run
    again = Run.open(folder_of("classes"), make_graph(), device="cpu", other=True)
    assert again.home is again.home is not run
    assert again.home.split.digest == run.split.digest
    with pytest.raises(GpmError, match=r"^Only the training data has a split; open the run without other data\.$"):
        again.split  # noqa: B018


def test_the_earlier_name_of_the_metadata_still_works() -> None:
    run = run_of("classes")
    assert run.facts is run.metadata
