"""The shell of every page: one HTML file with style, script and data inside, which makes no network request.

Its content security policy allows this style and this script and nothing else, so that a name stays text.
"""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from pathlib import Path
from string import Template

from gpm.errors import GpmError


def check_page(path: Path) -> None:
    """Refuse, before any work, a path that no page can be written to."""
    if path.suffix.lower() != ".html":
        raise GpmError(f"A page cannot be written to {str(path)!r}; let its name end in .html.")
    if path.is_dir():
        raise GpmError(f"{path} is a folder; give the name of a file.")


def read_asset(package: str, name: str) -> str:
    """Read a file of the `web` folder of a package."""
    return resources.files(package).joinpath("web", name).read_text(encoding="utf-8")


def section_style(package: str) -> str:
    """Return the style of a page of sections, with what `web/page.css` of its package adds."""
    own = read_asset(package, "page.css")
    return "".join(read_asset("gpm.explain", name) for name in ("page.css", "sections.css")) + own


def assemble_page(package: str, *, title: str, style: str, script: str = "", **content: str) -> str:
    """Fill the shell with the body in `web/page.html` of a package, and that with HTML by placeholder."""
    title = html.escape(title)
    allowed = f"style-src {_digest(style)}; " + (f"script-src {_digest(script)}; " if script else "")
    body = Template(read_asset(package, "page.html").rstrip("\n")).substitute(content, title=title, script=script)
    text = Template(read_asset("gpm.explain", "shell.html")).substitute(
        policy=f"default-src 'none'; {allowed}img-src data:; base-uri 'none'; form-action 'none'",
        title=title,
        style=style,
        body=body,
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # a name may hold half a character, which no file can


def _digest(text: str) -> str:
    """Name a script or a style in the policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
