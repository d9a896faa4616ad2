"""Links: from a document's place in the repository to its place in the site."""

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .page import Made


_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


class Links:
    """Knows which page shows which file.

    **Arguments:**

    - `root`: The repository.
    - `pages`: The folder of the written pages, from the root.
    - `made`: The pages that are made.
    """

    def __init__(self, root: Path, pages: Path, made: Sequence[Made]):
        self._root, self._pages = root, pages.as_posix()
        self._made = {page.uri: page for page in made}
        self._showing: dict[str, list[Made]] = {}
        for page in made:
            if page.source:
                self._showing.setdefault(page.source, []).append(page)
        written = sorted((root / pages).rglob("*.md"))
        self._texts = {page.uri: page.content for page in made} | {
            path.relative_to(root / pages).as_posix(): path.read_text()
            for path in written
        }

    def rewritten(self, text: str, uri: str) -> str:
        """The text of a page, with its links as the site needs them."""
        outside_code = _FENCE.split(text)[::2]
        fences = [*_FENCE.split(text)[1::2], ""]
        replace = lambda match: self._link(match[1], uri)
        parts = [_LINK.sub(replace, part) for part in outside_code]
        return "".join(part + fence for part, fence in zip(parts, fences, strict=True))

    def linked_files(self) -> list[str]:
        """The files of the repository that pages link to and that no page shows."""
        found = set()
        for uri, text in self._texts.items():
            for part in _FENCE.split(text)[::2]:
                for target in _LINK.findall(part):
                    path, _ = self._path(target, uri)
                    if path and self._is_other_file(path):
                        found.add(path)
        return sorted(found)

    def _link(self, target: str, uri: str) -> str:
        path, anchor = self._path(target, uri)
        if path is None:
            return target
        ending = f"#{anchor}" if anchor else ""
        for page in self._at(path, anchor):
            if page == uri:
                return ending or posixpath.basename(uri)
            return posixpath.relpath(page, posixpath.dirname(uri) or ".") + ending
        if self._is_other_file(path):
            return posixpath.relpath(f"files/{path}", posixpath.dirname(uri) or ".")
        return target  # MkDocs then says that there is no such page.

    def _path(self, target: str, uri: str) -> tuple[str | None, str]:
        """The file of the repository that a link names, and the heading in it."""
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path) or (not path and not anchor):
            return None, anchor
        page = self._made.get(uri)
        if page is not None and not page.source:
            return None, anchor  # A page without a source is written for the site.
        here = page.source if page is not None else f"{self._pages}/{uri}"
        if not path:
            return here, anchor
        return posixpath.normpath(posixpath.join(posixpath.dirname(here), path)), anchor

    def _at(self, path: str, anchor: str) -> Iterator[str]:
        """The pages that show a file, or the part with a heading; the first is best."""
        if path.startswith(f"{self._pages}/"):
            inside = path.removeprefix(f"{self._pages}/")
            if inside in self._texts or os.path.exists(self._root / path):
                yield inside
        for page in self._showing.get(path, ()):
            if page.anchors is None or not anchor or anchor in page.anchors:
                yield page.uri

    def _is_other_file(self, path: str) -> bool:
        inside = path.startswith(f"{self._pages}/") or path in self._showing
        return not inside and (self._root / path).is_file()
