"""Sphinx configuration."""

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
