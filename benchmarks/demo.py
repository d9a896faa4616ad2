"""The demo's numbers beside the paper's; `python benchmarks/demo.py RUN [RUN ...]`.

Reads `findings.json` of finished demos (`icl demo --out RUN`) and prints the tables of
`benchmarks/RESULTS.md`. The paper is Singh et al. 2024, arXiv 2404.07129. Its main run
has ResNet features of Omniglot; we read its figures to about 2%.
"""

import json
import sys
from pathlib import Path
from typing import Any


PAPER = {
    "loss at 1·10⁵ sequences": ".73",
    "loss at 2·10⁵": ".60",
    "loss at 3·10⁵": ".20",
    "loss at 4·10⁵": ".076",
    "loss below ½ ln 2 at (thousands)": "257",
    "final loss, training sequences": "≤ .006",
    "final loss, new relabellings": ".03",
    "final loss, new exemplars": ".12",
    "final accuracy, new exemplars": "–",
    "final loss, new classes": "–",
    "final accuracy, new classes": "–",
    "accuracy": ".99999",
    "strongest induction head: strength": ".845",
    "… accuracy with it alone": ".980",
    "… accuracy without it": "–",
    "strongest previous-token head: strength": "–",
}

STRENGTHS = [0.418, 0.736, 0.708, 0.845, 0.289, 0.553, 0.104, 0.570]
ALONE = [0.403, 0.765, 0.752, 0.980, 0.428, 0.646, 0.292, 0.588]


def summary(found: dict[str, Any]) -> list[str]:
    final, strength = found["final"], found["induction_strength"]
    best = strength.index(max(strength))
    crossing = found["crossing"]
    values = [
        *(found["loss_at"][str(n * 100_000)] for n in (1, 2, 3, 4)),
        None if crossing is None else f"{crossing / 1e3:.0f}",
        final["train"]["loss"],
        final["heldout_labels"]["loss"],
        *(final["heldout_exemplars"][key] for key in ("loss", "accuracy")),
        *(final["heldout_classes"][key] for key in ("loss", "accuracy")),
        found["accuracy"],
        strength[best],
        found["alone"][best],
        found["ablated"][-1][best],
        max(found["previous_token_strength"]),
    ]
    return [_cell(value) for value in values]


def _cell(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "never"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    folders = [Path(name) for name in sys.argv[1:]]
    if not folders:
        sys.exit("usage: python benchmarks/demo.py RUN [RUN ...]")
    found = [json.loads((folder / "findings.json").read_text()) for folder in folders]
    names = [folder.name for folder in folders]
    columns = [summary(f) for f in found]
    rows = [
        [name, paper, *(column[i] for column in columns)]
        for i, (name, paper) in enumerate(PAPER.items())
    ]
    print(table(["", "paper", *names], rows))
    for name, f in zip(["paper", *names], [None, *found], strict=True):
        print(f"\n{name}, head by head\n")
        heads = range(len(f["alone"]) if f else len(ALONE))
        lines = {
            "layer 1: induction strength": f["induction_strength"] if f else STRENGTHS,
            "layer 1: accuracy with it alone": f["alone"] if f else ALONE,
        }
        if f:
            lines |= {
                "layer 1: accuracy without it": f["ablated"][1],
                "layer 0: previous-token strength": f["previous_token_strength"],
                "layer 0: accuracy without it": f["ablated"][0],
            }
        cells = [[key, *(f"{x:.3f}" for x in row)] for key, row in lines.items()]
        print(table(["head", *map(str, heads)], cells))


if __name__ == "__main__":
    main()
