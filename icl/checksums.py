"""The checksums of what we write, and their check.

A binary file ends with its own checksum. Its last 96 bytes are a mark, the SHA-256 of
the owner's name, the SHA-256 of the content and of the owner's hash, and another mark.
Programs that read the file's own format stop before these bytes: HDF5 at the end that
its superblock names, Equinox after the last array. Files of older versions have no
checksum. A single damaged bit cannot make a file look like an old one, because there
are two marks.

People read and copy the text files of a run, so these hold only their own content. One
file, the manifest, has their checksums; `sha256sum -c` can read it too. If a folder has
a manifest, a binary file without a checksum is an error.
"""

import dataclasses
import hashlib
import os
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .text import read_json


_BEGIN, _END = b"icl-opto sha256\n", b"\nicl-opto sealed"
_DIGEST = 32
_LENGTH = len(_BEGIN) + 2 * _DIGEST + len(_END)
# A file may end by chance with fewer bytes of a mark than this.
_TELLING = 4

SUMS = "checksums.sha256"
"""The name of the manifest."""
LISTED = ("config.json", "meta.json", "data.sha256", "heads.json", "imported.json")
"""The files that the manifest lists, if the run has them."""
# A comment for sha256sum. It shows whether a line of the manifest is damaged.
_FIRST = "# SHA-256 of the lines below: "


class DamagedFileError(OSError):
    """A file does not hold what was written; the message says what is wrong."""


@dataclasses.dataclass(frozen=True)
class Checked:
    """The content of a file whose checksum is right."""

    content: memoryview
    """The content without the checksum."""
    digest: str
    """The SHA-256 of the content and of the owner, if the file has one."""
    sealed: bool
    """Whether the file has a checksum."""


def with_checksum(
    content: bytes | memoryview, owner: str | None = None
) -> tuple[bytes | memoryview, bytes]:
    """A content, and the checksum to write after it.

    **Arguments:** `owner`: Whose file it is: for example, a run and the file's name in
        it. `None`: nobody's.
    """
    tag = _tag(owner)
    return content, _BEGIN + tag + _hash(content, tag).digest() + _END


def checked(written: bytes, owner: str | None) -> Checked:
    """The content of a file, given the bytes that were read.

    **Arguments:**

    - `owner`: Whose file it must be. `None` accepts any file, even one without a
        checksum. If there is a checksum, it is always checked.

    **Raises:** `DamagedFileError` if the checksum is wrong, or is missing although
    `owner` is given.
    """
    expected = _expected(written[-_LENGTH:])
    if expected is None:
        if owner is not None:
            raise DamagedFileError(
                "the checksum is missing: the file was cut or changed later"
            )
        return Checked(memoryview(written), _hash(written).hexdigest(), False)
    tag, digest = expected
    content = memoryview(written)[:-_LENGTH]
    if _hash(content, tag).digest() != digest:
        raise DamagedFileError("the content does not match the checksum")
    if owner is not None and tag != _tag(owner):
        raise DamagedFileError("this is another run's file, or it was renamed")
    return Checked(content, digest.hex(), True)


def digest_of(file: Path) -> str:
    """The digest of a file as in `Checked`; only a file without one is read whole.

    **Raises:** `OSError` if the file cannot be read, `DamagedFileError` if its checksum
    is damaged.
    """
    with open(file, "rb") as stream:
        stream.seek(max(os.fstat(stream.fileno()).st_size - _LENGTH, 0))
        expected = _expected(stream.read())
        if expected is not None:
            return expected[1].hex()
        stream.seek(0)
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _tag(owner: str | None) -> bytes:
    return _hash((owner or "").encode()).digest()


def _hash(*parts: bytes | memoryview) -> Any:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found


def _expected(tail: bytes) -> tuple[bytes, bytes] | None:
    """The owner's hash and the digest at a file's end; `None` without a checksum."""
    if len(tail) == _LENGTH and tail.startswith(_BEGIN) and tail.endswith(_END):
        both = tail[len(_BEGIN) : -len(_END)]
        return both[:_DIGEST], both[_DIGEST:]
    cut = (_BEGIN[:k] for k in range(_TELLING, len(_BEGIN)))
    if _BEGIN in tail or _END in tail or any(map(tail.endswith, cut)):
        raise DamagedFileError("the checksum is damaged")
    return None


# The manifest of a run


def is_sealed(folder: Path) -> bool:
    """Whether a run's files need checksums; not if an older version made the run."""
    return (folder / SUMS).exists()


def owner_of(file: Path) -> str | None:
    """The owner of a run's binary file; `None` if an older version made the run.

    The owner is the run's config and the file's name. So a checkpoint of another run,
    or of another moment, is never taken for this one. Runs of one config have the same
    files.
    """
    folder = file.parent
    if folder.name in ("checkpoints", "resume"):
        folder = folder.parent
    if not is_sealed(folder):
        return None
    return f"{sums(folder).get('config.json')}/{file.relative_to(folder).as_posix()}"


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each text file, by name.

    **Raises:** `ValueError` if the manifest is damaged.
    """
    file = folder / SUMS
    try:
        first, _, rest = file.read_bytes().partition(b"\n")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    lines = rest.decode(errors="replace").splitlines()
    rows = [re.fullmatch(r"([0-9a-f]{64})  ([^/]+)", line) for line in lines]
    if first != (_FIRST + _hash(rest).hexdigest()).encode() or not all(rows):
        raise ValueError(f"{file} is damaged: its lines are not what was written")
    return {row[2]: row[1] for row in rows if row}


def with_sums(found: Mapping[str, str], texts: Mapping[str, str]) -> bytes:
    """The manifest for files with known sums, and for more texts by their names."""
    own = {name: _hash(text.encode()).hexdigest() for name, text in texts.items()}
    rows = {**found, **own}.items()
    lines = "".join(f"{digest}  {name}\n" for name, digest in rows).encode()
    return f"{_FIRST}{_hash(lines).hexdigest()}\n".encode() + lines


def read_text(file: Path) -> str:
    """A text file; if its folder has a checksum of it, that is checked.

    **Raises:** `ValueError` if the file cannot be read or is not what was written.
    """
    try:
        content = file.read_bytes()
        text = content.decode()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text: {error}") from None
    if file.name in LISTED and is_sealed(file.parent):
        if sums(file.parent).get(file.name) != _hash(content).hexdigest():
            raise ValueError(
                f"{file} is not what the run wrote: it was edited or is damaged (see "
                f"{SUMS} beside it); to train with another config, edit a copy"
            )
    return text


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file.

    **Raises:** `ValueError` if it cannot be read, is not an object, or is not what the
    run in its folder wrote.
    """
    text = read_text(file)
    try:
        found = read_json(text)
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} must hold an object, got {reprlib.repr(found)}")
    return found


def was_kept(file: Path) -> bool:
    """Whether a run has written a text file.

    **Raises:** `ValueError` if it has, but the file is gone.
    """
    folder = file.parent
    if file.is_file() or not is_sealed(folder) or file.name not in sums(folder):
        return file.is_file()
    # A kill may come between a checksum and its file, but not after the first save.
    if (folder / "log.h5").exists():
        raise ValueError(f"{file} is gone, but the run was made with it")
    return False
