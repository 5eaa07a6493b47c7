"""A window of a real browser, for tests of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Opened:
    """A window of the browser, and all that its pages complained of or asked for."""

    def __init__(self, context: Any) -> None:
        self.troubles: list[str] = []
        self.asked: list[str] = []
        self.given: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(5000)
        self.page.on("console", lambda m: self.troubles.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: (self.troubles.append(dialog.message), dialog.dismiss()))

    def open(self, file: Path) -> None:
        self.page.mouse.move(5, 5)
        self.given.append(file.as_uri())
        self.page.goto(file.as_uri())

    def told(self) -> tuple[list[str], set[str], set[str]]:
        """Complaints, and addresses that were asked for and that were given, since the last time."""
        found = list(self.troubles), set(self.asked), set(self.given)
        for noted in (self.troubles, self.asked, self.given):
            noted.clear()
        return found

    def each(self, selector: str, what: str) -> list[Any]:
        found: list[Any] = self.page.eval_on_selector_all(selector, f"parts => parts.map((part) => {what})")
        return found

    def lit(self) -> set[str]:
        return set(self.each(".node.lit", "part.dataset.name"))

    def order(self, panel: int = 0) -> list[int]:
        rows: list[str] = (
            self.page.locator(".patterns")
            .nth(panel)
            .evaluate("list => [...list.children].filter((row) => !row.hidden).map((row) => row.dataset.place)")
        )
        return [int(row) for row in rows]

    def point_at(self, selector: str) -> None:
        box = self.page.locator(selector).first.bounding_box()
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
