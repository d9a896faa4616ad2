"""A page that is made."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Made:
    """A page of the site that no file in `docs/pages` holds.

    **Fields:**

    - `uri`: Its place in the site, such as `"papers/induction.md"`.
    - `content`: Its Markdown.
    - `source`: The file of the repository that it shows, if one; links to the file then
        lead to the page, and links on the page start at the file's folder.
    - `anchors`: The headings of the source that are on this page, if it has only a part
        of the source.
    - `files`: Other files that it needs, such as pictures, by place in the site.
    """

    uri: str
    content: str
    source: str = ""
    anchors: frozenset[str] | None = None
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
