"""Formulas as MathML, which browsers draw by themselves."""

import html
import logging
import re

from latex2mathml.converter import convert


# What the Markdown extension makes of $…$ and $$…$$.
_FOUND = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<formula>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)
_log = logging.getLogger("mkdocs.hooks.icl")


def drawn(page: str) -> str:
    """The HTML of a page with each formula as MathML."""
    return _FOUND.sub(_mathml, page)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["tag"] == "div" else "inline"
    made = convert(html.unescape(found["formula"]), display=display)
    if "\\" in made:  # A command that it does not know is left as it is.
        _log.warning("no MathML for all of the formula %s", found["formula"])
    return made
