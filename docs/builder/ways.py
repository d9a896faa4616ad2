"""Draws the way of the data: the fenced block `way`.

Each line is a step, `what | where or how`. A step that begins with `>` is the one that
the page is about. Steps go downwards, so the picture fits on a phone.
"""

from html import escape
from typing import Any


WIDTH, HEIGHT, GAP = 340, 54, 26


def fence(source: str, *_: Any, **__: Any) -> str:
    """The block as SVG, in the colours of the page."""
    steps = [line.strip() for line in source.splitlines() if line.strip()]
    height = len(steps) * (HEIGHT + GAP) - GAP + 4
    parts = [_step(step, 2 + k * (HEIGHT + GAP)) for k, step in enumerate(steps)]
    arrows = [_arrow(2 + k * (HEIGHT + GAP) + HEIGHT) for k in range(len(steps) - 1)]
    said = escape("; then ".join(step.removeprefix(">").strip() for step in steps))
    return (
        f'<svg class="way" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{said}">{"".join([*parts, *arrows])}</svg>'
    )


def _step(step: str, top: int) -> str:
    here = step.startswith(">")
    what, _, where = step.removeprefix(">").strip().partition("|")
    box = (
        f'<rect class="{"here" if here else "step"}" x="2" y="{top}" rx="8" '
        f'width="{WIDTH - 4}" height="{HEIGHT}"/>'
    )
    lines = [(what.strip(), "what", 22), (where.strip(), "where", 42)]
    if not where:
        lines = [(what.strip(), "what", 32)]
    texts = [
        f'<text class="{name}" x="{WIDTH // 2}" y="{top + down}" '
        f'text-anchor="middle">{escape(text)}</text>'
        for text, name, down in lines
    ]
    return f'<g class="{"now" if here else "other"}">{box}{"".join(texts)}</g>'


def _arrow(top: int) -> str:
    x, end = WIDTH // 2, top + GAP - 4
    return (
        f'<path class="arrow" d="M{x} {top + 4}V{end}M{x - 5} {end - 6}'
        f'L{x} {end}L{x + 5} {end - 6}"/>'
    )
