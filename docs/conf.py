"""Sphinx configuration."""

from inspect import getdoc
from typing import Any

import gpm

project = "gpm"
author = "The gpm developers"
release = gpm.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "gpm"
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3


def add_inherited_options(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Document the options that `Config` inherits: their attributes are listed by its base classes."""
    if name == "gpm.Config":
        for base in item.__mro__[1:-1]:
            lines += ["", *(getdoc(base) or "").splitlines()]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", add_inherited_options, priority=100)  # before napoleon reads them
