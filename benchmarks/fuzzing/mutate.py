"""Files broken in the ways that files break: by transfer, by editors, by other programs, and on purpose."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Callable
from random import Random

NUMBERS = [
    "nan", "inf", "-inf", "1e400", "-1e400", "1e38", "9" * 25, "-9223372036854775809", "1_000", "0x10", "1,5", "+5",
    "-0", "1e-320", ".5", "5.", "٣", "1/2", "0.1e", "--1", "١٢", "1 000", "18446744073709551616", "007",
]  # fmt: skip
WORDS = [
    "", " ", "\t", "null", "None", "NaN", "NA", "true", "#", "a" * 300, "é", "é", " a", "a ", "\u00a0a", "🎲",
    "\u202eabc", '"', '""', "'", ",", ";", "\\", "\\n", "=1+1", "a,b", "x\ty", "\ufeff", "gpm_row", "\x1a", "\x85", "\u2028",
    "<b>", "&amp;", "%s", "{}", "../x", "$HOME", "a\x0bb", "\x1c",
]  # fmt: skip
PIECES = [
    b"\0", b"\xff", b"\xfe\xff", codecs.BOM_UTF8, b'"', b'"""', b"\r", b"\n", b"\r\n", b"\n\n", b",", b";", b"\t", b" ", b"#", b"\\",
    b"\x1a", b"[", b"]", b"{", b"}", b":", b"&", b"*", b"!", b"<", b">", b"\xc3", b"\xed\xa0\x80", b"PK\x03\x04", b"\x1f\x8b",
]  # fmt: skip


def mutate(content: bytes, random: Random, times: int = 0) -> bytes:
    """Break a file once or a few times."""
    for _ in range(times or random.choice([1, 1, 1, 2, 3])):
        content = random.choice(_WAYS)(content, random)
    return content


def _at(content: bytes, random: Random) -> tuple[int, int]:
    begin = random.randint(0, len(content))
    return begin, min(len(content), begin + random.choice([1, 1, 2, 4, 16, 64]))


def _flip(content: bytes, random: Random) -> bytes:
    if not content:
        return content
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]


def _set(content: bytes, random: Random) -> bytes:
    begin, end = _at(content, random)
    return content[:begin] + random.randbytes(end - begin) + content[end:]


def _insert(content: bytes, random: Random) -> bytes:
    begin, _ = _at(content, random)
    return content[:begin] + random.choice(PIECES) + content[begin:]


def _insert_word(content: bytes, random: Random) -> bytes:
    begin, _ = _at(content, random)
    return content[:begin] + random.choice(WORDS + NUMBERS).encode() + content[begin:]


def _delete(content: bytes, random: Random) -> bytes:
    begin, end = _at(content, random)
    return content[:begin] + content[end:]


def _double(content: bytes, random: Random) -> bytes:
    begin, end = _at(content, random)
    return content[:end] + content[begin:end] + content[end:]


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randint(0, len(content))]


def _behead(content: bytes, random: Random) -> bytes:
    return content[random.randint(0, min(len(content), 64)) :]


def _change_number(content: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"\d+(\.\d+)?", content))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + random.choice(NUMBERS).encode() + content[one.end() :]


def _change_word(content: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"\w+", content))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + random.choice(WORDS).encode() + content[one.end() :]


def _swap_marks(content: bytes, random: Random) -> bytes:
    marks = random.sample([b",", b";", b"\t", b" ", b"|", b":", b"'", b'"'], 2)
    return content.replace(*marks) if random.random() < 0.6 else content.replace(*marks, 1)


def _change_ends(content: bytes, random: Random) -> bytes:
    end = random.choice([b"\r", b"\r\n", b"\n\n", b"\n\r", b"", b" \n", b",\n", b"\x0b", b"\xe2\x80\xa8"])
    return content.replace(b"\n", end) if random.random() < 0.6 else content.replace(b"\n", end, random.randint(1, 3))


def _double_line(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    return b"\n".join(lines[:at] + [lines[at]] * random.choice([2, 2, 3, 50]) + lines[at:])


def _drop_line(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    del lines[random.randrange(len(lines))]
    return b"\n".join(lines)


def _swap_lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines)


def _encode(content: bytes, random: Random) -> bytes:
    form = random.choice(["utf-16", "utf-16-le", "utf-8-sig", "latin-1", "utf-32", "cp1252"])
    return content.decode("utf-8", "replace").encode(form, "replace")


def _lengthen(content: bytes, random: Random) -> bytes:
    begin, end = _at(content, random)
    size = random.choice([10_000, 10_000, 140_000, 3_000_000])
    return content[:begin] + (content[begin:end] or b"x") * (size // max(1, end - begin)) + content[end:]


def _nest(content: bytes, random: Random) -> bytes:
    begin, _ = _at(content, random)
    mark = random.choice([b"[", b"{", b'{"a":', b"<a>", b"- ", b"[[", b'"[', b"node ["])
    return content[:begin] + mark * random.choice([20, 2_000, 100_000]) + content[begin:]


def _pack(content: bytes, random: Random) -> bytes:
    return gzip.compress(content)


def _empty(content: bytes, random: Random) -> bytes:
    return random.choice([b"", b"\n", b" ", b"\0" * 100, codecs.BOM_UTF8, b"{}", b"[]", b"null", b"\n\n\n", b"#\n"])


_WAYS: list[Callable[[bytes, Random], bytes]] = [
    _flip, _flip, _flip, _set, _insert, _insert, _insert, _insert_word, _insert_word, _delete, _delete, _double, _cut,
    _behead, _change_number, _change_number, _change_word, _change_word, _swap_marks, _change_ends, _double_line,
    _drop_line, _swap_lines, _encode, _lengthen, _nest, _pack, _empty,
]  # fmt: skip
