"""A checksum at the end of each binary file that we write, and its check.

The last 96 bytes of a file are a mark, the SHA-256 of the owner's name, the SHA-256 of
the content and of the owner's hash, and another mark. Programs that read the file's own
format stop before these bytes: HDF5 at the end that its superblock names, Equinox after
the last array. Files of older versions have no checksum. A single damaged bit cannot
make a file look like an old one, because there are two marks.
"""

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any


_BEGIN, _END = b"icl-opto sha256\n", b"\nicl-opto sealed"
_DIGEST = 32
_LENGTH = len(_BEGIN) + 2 * _DIGEST + len(_END)
# A file may end by chance with fewer bytes of a mark than this.
_TELLING = 4
_CHUNK = 2**20


class DamagedFileError(OSError):
    """A file does not hold what was written; the message says what is wrong."""


@dataclasses.dataclass(frozen=True)
class Checked:
    """The content of a file whose checksum is right."""

    content: memoryview
    """The content without the checksum."""
    digest: str
    """The SHA-256 of the content and of the owner, if the file has one."""


def with_checksum(
    content: bytes | memoryview, owner: str | None = None
) -> tuple[bytes | memoryview, bytes]:
    """A content, and the checksum to write after it.

    **Arguments:** `owner`: Whose file it is: for example, a run and the file's name in
        it. `None`: nobody's.
    """
    found, tag = hashlib.sha256(content), _tag(owner or "")
    found.update(tag)
    return content, _BEGIN + tag + found.digest() + _END


def checked(written: bytes, owner: str | None) -> Checked:
    """The content of a file, given the bytes that were read.

    **Arguments:**

    - `owner`: Whose file it must be. `None` accepts any file, even one without a
        checksum. If there is a checksum, it is always checked.

    **Raises:** `DamagedFileError` if the checksum is wrong, or is missing although
    `owner` is given.
    """
    expected = _expected(written[-_LENGTH:], owner)
    if expected is None:
        return Checked(memoryview(written), hashlib.sha256(written).hexdigest())
    content = memoryview(written)[:-_LENGTH]
    return Checked(content, _compare(hashlib.sha256(content), expected, owner))


def check_file(file: Path, owner: str | None) -> bool:
    """Does what `checked` does in little memory; says whether there is a checksum.

    **Raises:** `OSError` if the file cannot be read, `DamagedFileError` as
    in `checked`.
    """
    found = hashlib.sha256()
    with open(file, "rb") as stream:
        # The size of the opened file: a writer may replace the path meanwhile.
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


def digest_of(file: Path) -> str:
    """The digest of a file as in `Checked`; only a file without one is read whole.

    **Raises:** `OSError` if the file cannot be read, `DamagedFileError` if its checksum
    is damaged.
    """
    with open(file, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(size - _LENGTH, 0))
        expected = _expected(stream.read(), None)
        if expected is not None:
            return expected[1].hex()
        stream.seek(0)
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _tag(owner: str) -> bytes:
    return hashlib.sha256(owner.encode()).digest()


def _expected(tail: bytes, owner: str | None) -> tuple[bytes, bytes] | None:
    """The owner's hash and the digest at a file's end; `None` without a checksum."""
    if len(tail) == _LENGTH and tail.startswith(_BEGIN) and tail.endswith(_END):
        both = tail[len(_BEGIN) : -len(_END)]
        return both[:_DIGEST], both[_DIGEST:]
    cut = (_BEGIN[:k] for k in range(_TELLING, len(_BEGIN)))
    if _BEGIN in tail or _END in tail or any(map(tail.endswith, cut)):
        raise DamagedFileError("the checksum is damaged")
    if owner is not None:
        raise DamagedFileError(
            "the checksum is missing: the file was cut or changed later"
        )
    return None


def _compare(found: Any, expected: tuple[bytes, bytes], owner: str | None) -> str:
    """Compares the hash of a content; returns the digest."""
    tag, digest = expected
    found.update(tag)
    if found.digest() != digest:
        raise DamagedFileError("the content does not match the checksum")
    if owner is not None and tag != _tag(owner):
        raise DamagedFileError("this is another run's file, or it was renamed")
    return found.hexdigest()
