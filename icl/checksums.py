"""A checksum at the end of each binary file that we write, and its check.

The last 96 bytes of a file are a mark, what says whose file it is, the SHA-256 of that
and of all before the mark, and another mark. What reads the file by its own format
stops before them: HDF5 at the end that its superblock names, Equinox after the last
array. Files of older versions have none; a single damaged bit cannot make a file look
like one of those, as there are two marks.
"""

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any


_BEGIN, _END = b"icl-opto sha256\n", b"\nicl-opto sealed"
_DIGEST = 32
_LENGTH = len(_BEGIN) + 2 * _DIGEST + len(_END)
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
    """The SHA-256 of what it covers; `None` for a file without a checksum."""


def with_checksum(
    content: bytes | memoryview, owner: str | None = None
) -> tuple[bytes | memoryview, bytes]:
    """A content, and what is written after it.

    **Arguments:** `owner`: Whose file it is, such as a run and its name there; `None`:
        nobody's.
    """
    found, tag = hashlib.sha256(content), _tag(owner or "")
    found.update(tag)
    return content, _BEGIN + tag + found.digest() + _END


def checked(written: bytes, owner: str | None) -> Checked:
    """The content of a file that was read.

    **Arguments:**

    - `owner`: Whose file it must be; `None` takes anybody's, and one without a checksum
        too. A checksum that is there is checked anyway.

    **Raises:** `DamagedFileError` if it is wrong, or lacks where it must not.
    """
    expected = _expected(written[-_LENGTH:], owner)
    if expected is None:
        return Checked(memoryview(written), None)
    content = memoryview(written)[:-_LENGTH]
    return Checked(content, _compare(hashlib.sha256(content), expected, owner))


def check_file(file: Path, owner: str | None) -> bool:
    """As `checked`, with little memory; returns whether there is a checksum.

    **Raises:** `OSError` if the file cannot be read, `DamagedFileError` as `checked`.
    """
    found = hashlib.sha256()
    with open(file, "rb") as stream:
        # Of what was opened: a writer may replace the file meanwhile.
        left = max(os.fstat(stream.fileno()).st_size - _LENGTH, 0)
        stream.seek(left)
        expected = _expected(stream.read(), owner)
        if expected is None:
            return False
        stream.seek(0)
        while left and (some := stream.read(min(left, _CHUNK))):
            found.update(some)
            left -= len(some)
    _compare(found, expected, owner)
    return True


def _tag(owner: str) -> bytes:
    return hashlib.sha256(owner.encode()).digest()


def _expected(tail: bytes, owner: str | None) -> tuple[bytes, bytes] | None:
    """The tag and the digest at the end of a file; `None` for a file without."""
    if len(tail) == _LENGTH and tail.startswith(_BEGIN) and tail.endswith(_END):
        both = tail[len(_BEGIN) : -len(_END)]
        return both[:_DIGEST], both[_DIGEST:]
    cut = (_BEGIN[:k] for k in range(_TELLING, len(_BEGIN)))
    if _BEGIN in tail or _END in tail or any(map(tail.endswith, cut)):
        raise DamagedFileError("its checksum is damaged")
    if owner is not None:
        raise DamagedFileError("its checksum is gone: it was cut, or changed later")
    return None


def _compare(found: Any, expected: tuple[bytes, bytes], owner: str | None) -> str:
    """Compares the hash of a content; returns the whole digest."""
    tag, digest = expected
    found.update(tag)
    if found.digest() != digest:
        raise DamagedFileError("its content is not what its checksum says")
    if owner is not None and tag != _tag(owner):
        raise DamagedFileError("it is another run's file, or had another name there")
    return found.hexdigest()
