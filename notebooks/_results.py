"""Writes `RESULTS.md`: the papers' numbers beside ours, of every figure that was drawn.

    python notebooks/_results.py [runs/figures …]

It reads what `icl figure NAME --scale small --out runs` leaves in `runs/figures`, and
nothing else: a figure that was not drawn is not there.
"""

import json
import sys
from pathlib import Path
from typing import Any


HERE = Path(__file__).parent
HEAD = """# The papers' numbers and ours

Made by `python notebooks/_results.py` from what `icl figure NAME --scale small --out
runs` left, each on two cores of a shared machine. At scale `small` the induction study
has the published lengths, looked at less often; the transience study has 6400 classes
instead of 12,800 and ten times the learning rate, so that its times are not the
paper's. *Synthetic* classes (`icl.data.LowRankClasses`) stand in for the papers' ResNet
features of Omniglot; *Omniglot* is the real drawings of the two small background sets,
turned by 0, 90, 180 and 270 degrees, through a small convolutional encoder of ours.
Numbers are means over seeds, with 95 % intervals (Student's t); where some seed never
got there it is the median over all of them, with how many did. Targets are the papers'
numbers, mostly of one seed, unless a section says otherwise. Exemplars of the
transience study vary along the classes' own dimensions (`class_spread=0.5`), chosen in
trials that are not kept: with independent noise of each feature learning in context
stayed.
"""


def _section(file: Path) -> list[str]:
    try:
        return section(json.loads(file.read_text()))
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise SystemExit(f"{file}: {reason}; draw that figure again") from None


def section(found: dict[str, Any]) -> list[str]:
    """A figure: its claims, then its numbers."""
    about = [text.split(": /")[0] for text in found["about"]]
    lines = [f"## {found['figure']} · {found['source']}", "", *about, ""]
    verdict = {True: "holds", False: "does **not** hold", None: "cannot be told"}
    for claim, told in found["claims"].items():
        good, count = told["seeds"]
        seeds = f" (in {good} of {count} seeds)" if count > 1 else ""
        lines.append(f"- {claim}: {verdict[told['holds']]}{seeds}")
    lines += ["", f"| {found['unit']} | target | ours | 95 % interval |"]
    lines += ["| --- | --: | --: | --: |"]
    for row, values in found["rows"].items():
        low, high = values["interval"]
        interval = "–" if low is None else f"{number(low)} to {number(high)}"
        target = number(values["target"])
        lines.append(f"| {row} | {target} | {value_of(values)} | {interval} |")
    return [*lines, ""]


def value_of(values: dict[str, Any]) -> str:
    """The number, and in how many seeds it was reached if not in all."""
    reached, count = values["reached"], values["seeds"]
    text = number(values["value"])
    if reached in (0, count):
        some = count < len(values["measured"])
        of = f", of {count} seeds" if some and count else ""
        return text + of if reached or not count else "not reached"
    seeds = f"in {reached} of {count} seeds"
    return seeds if values["value"] is None else f"{text}, {seeds}"


def number(value: float | None) -> str:
    """Whole numbers with separators, others with three digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> None:
    """Writes the file from the folders that are named."""
    folders = [Path(name) for name in sys.argv[1:]] or [HERE.parent / "runs/figures"]
    files = [file for folder in folders for file in sorted(folder.glob("*.json"))]
    parts = [line for file in files for line in _section(file)]
    (HERE / "RESULTS.md").write_text("\n".join([HEAD, *parts]))
    print(f"{len(files)} figures: {HERE / 'RESULTS.md'}")


if __name__ == "__main__":
    main()
