"""Read a page of HTML, for tests."""

from __future__ import annotations

from html.parser import HTMLParser


class Reader(HTMLParser):
    """The tags of a page, the numbers of its `data` elements, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read_page(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader
