"""The site's own steps, which MkDocs calls: pages that are made, and links.

Most pages are not in `docs/pages`. They are made here from what they describe, so a new
paper, figure, notebook, module or chapter needs no line anywhere.
"""

import logging
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


ROOT = Path(__file__).parents[1]
# MkDocs imports this file by its path.
for folder in (ROOT, ROOT / "docs"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from builder import (  # noqa: E402
    formulas,
    gallery,
    notebooks,
    papers,
    reference,
    texts,
    ways,
)
from builder.links import Links  # noqa: E402
from builder.page import Made  # noqa: E402


_LINKS: dict[str, Links] = {}
_log = logging.getLogger("mkdocs.hooks.icl")


def on_config(config: Any) -> Any:
    """Adds the fenced block that draws the data's way."""
    blocks = config.mdx_configs.setdefault("pymdownx.superfences", {})
    blocks["custom_fences"] = [{"name": "way", "class": "way", "format": ways.fence}]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages that are made, and writes out the `…/*` of the nav."""
    shown = notebooks.made(ROOT)
    made: list[Made] = [
        *texts.made(ROOT),
        *shown,
        *papers.made(ROOT),
        gallery.made(ROOT, shown, papers.tallies(ROOT)),
        *reference.made(ROOT),
    ]
    links = Links(ROOT, Path(config.docs_dir).relative_to(ROOT), made)
    _LINKS["now"] = links
    for page in made:
        files.append(File.generated(config, page.uri, content=page.content))
        for uri, content in page.files.items():
            files.append(File.generated(config, uri, content=content))
    for path in links.linked_files():
        content = (ROOT / path).read_bytes()
        files.append(File.generated(config, f"files/{path}", content=content))
    config.nav = _written_out(config.nav, [page.uri for page in made])
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turns links into the repository into links to pages."""
    return _LINKS["now"].rewritten(markdown, page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """Turns formulas into what a browser can draw."""
    return formulas.drawn(html)


def _written_out(nav: Any, uris: list[str]) -> Any:
    """The nav with each `folder/*` replaced by the folder's pages, in order."""
    if isinstance(nav, list):
        return [_written_out(each, uris) for each in nav]
    if isinstance(nav, dict):
        return {name: _written_out(each, uris) for name, each in nav.items()}
    if not nav.endswith("/*"):
        return nav
    found = [uri for uri in uris if uri.startswith(nav[:-1])]
    if not found:
        _log.warning("the nav has %s, and there is no such page", nav)
    return found
