"""A checksum at the end of each binary file that we write, and its check.

The last 64 bytes of a file are a mark, the SHA-256 of everything before, and another
mark. What reads the file by its own format stops before them: HDF5 at the end that its
superblock names, Equinox after the last array. Files of older versions have none; a
single damaged bit cannot make a file look like one of those, as there are two marks.
"""

import dataclasses
import hashlib
import os
from pathlib import Path


_BEGIN, _END = b"icl-opto sha256\n", b"\nicl-opto sealed"
_DIGEST = 32
_LENGTH = len(_BEGIN) + _DIGEST + len(_END)
# Fewer bytes than this of a mark could be the chance end of any file.
_TELLING = 4
_CHUNK = 2**20


class DamagedFileError(OSError):
    """A file does not hold what was written; the text says in what way."""


@dataclasses.dataclass(frozen=True)
class Checked:
    """What a file holds, after its checksum was found to be right."""

    content: memoryview
    """Without the checksum."""
    digest: str | None
    """The SHA-256 of the content; `None` for a file without a checksum."""


def with_checksum(content: bytes | memoryview) -> tuple[bytes | memoryview, bytes]:
    """A content, and what is written after it."""
    return content, _BEGIN + hashlib.sha256(content).digest() + _END


def checked(written: bytes, *, sealed: bool) -> Checked:
    """The content of a file that was read.

    **Arguments:**

    - `sealed`: Whether it must have a checksum; one that is there is checked anyway.

    **Raises:** `DamagedFileError` if it is wrong, or lacks where it must not.
    """
    expected = _expected(written[-_LENGTH:], sealed)
    if expected is None:
        return Checked(memoryview(written), None)
    content = memoryview(written)[:-_LENGTH]
    found = hashlib.sha256(content)
    _compare(found.digest(), expected)
    return Checked(content, found.hexdigest())


def check_file(file: Path, *, sealed: bool) -> bool:
    """As `checked`, with little memory; returns whether there is a checksum.

    **Raises:** `OSError` if the file cannot be read, `DamagedFileError` as `checked`.
    """
    found = hashlib.sha256()
    with open(file, "rb") as stream:
        # Of what was opened: a writer may replace the file meanwhile.
        left = max(os.fstat(stream.fileno()).st_size - _LENGTH, 0)
        stream.seek(left)
        expected = _expected(stream.read(), sealed)
        if expected is None:
            return False
        stream.seek(0)
        while left and (some := stream.read(min(left, _CHUNK))):
            found.update(some)
            left -= len(some)
    _compare(found.digest(), expected)
    return True


def _expected(tail: bytes, sealed: bool) -> bytes | None:
    """The digest that the end of a file names; `None` for a file without."""
    if len(tail) == _LENGTH and tail.startswith(_BEGIN) and tail.endswith(_END):
        return tail[len(_BEGIN) : -len(_END)]
    cut = (_BEGIN[:k] for k in range(_TELLING, len(_BEGIN)))
    if _BEGIN in tail or _END in tail or any(map(tail.endswith, cut)):
        raise DamagedFileError("its checksum is damaged")
    if sealed:
        raise DamagedFileError("its checksum is gone: it was cut, or changed later")
    return None


def _compare(found: bytes, expected: bytes) -> None:
    if found != expected:
        raise DamagedFileError("its content is not what its checksum says")
