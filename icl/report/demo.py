"""The demo: train until induction heads form, and look at them."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import opto

from .. import measures, plots
from ..data import Source
from ..experiments import load, run_experiment, Trained
from ..experiments.curves import curves
from ..experiments.events import first_below, HALF_LN_2, since
from ..files import write_bytes
from ..presets.induction import induction
from ..replaying import Replay, replay
from ..tasks.exemplar_label.answers import answer_accuracy, token_letters


_Z = "blocks.*.attn.z"


@dataclasses.dataclass(frozen=True)
class DemoFindings:
    """What the demo measured, on the evaluation sequences named `train`.

    **Fields:**

    - `crossing`: Sequences seen when the loss first falls below half of ln 2; `None` if
        it never does.
    - `loss_at`: The loss by sequences seen.
    - `final`: Final loss and accuracy, by evaluation set.
    - `induction_strength`, `previous_token_strength`: Final strengths of the heads of
        the last layer and of the first layer, `[head]`.
    - `induction_since`, `previous_token_since`: Sequences seen when each head's
        strength is halfway from its lowest to its final value.
    - `accuracy`: Final accuracy with nothing ablated, from the same forward that the
        ablations use.
    - `ablated`: The accuracy with each head ablated, `[layer][head]`.
    - `alone`: The accuracy with each head of the last layer as its only head.
    """

    crossing: float | None
    loss_at: dict[int, float]
    final: dict[str, dict[str, float]]
    induction_strength: list[float]
    induction_since: list[float]
    previous_token_strength: list[float]
    previous_token_since: list[float]
    accuracy: float
    ablated: list[list[float]]
    alone: list[float]


def demo(source: Source, out: str | os.PathLike) -> DemoFindings:
    """Runs the main experiment of the induction-head paper and draws four figures.

    Trains into `out` (or continues the run there), replays the checkpoints, ablates
    each head, and writes `out/figures/*.png` and `out/findings.json`.

    **Raises:** `ValueError` if the data is not enough, or if `out` holds another run.
    """
    out = Path(out)
    run_experiment(induction(source), out, resume=True)
    trained = load(out)
    last = len(trained.model.blocks) - 1
    over_training = replay(
        trained,
        {
            "induction": measures.induction_strength(last),
            "previous": measures.previous_token_strength(0),
        },
    )
    findings = _findings(trained, over_training)
    (out / "figures").mkdir(exist_ok=True)
    for name, figure in _figures(trained, findings, over_training).items():
        plots.save(figure, out / "figures" / f"{name}.png")
    text = json.dumps(dataclasses.asdict(findings), indent=2)
    write_bytes(out / "findings.json", text.encode())
    return findings


def _findings(trained: Trained, over_training: Replay) -> DemoFindings:
    learning = curves(trained.run)
    events, sets = learning.events, learning.numbers
    losses = sets["train"]["loss"]
    ablated, alone, accuracy = _ablations(trained)
    return DemoFindings(
        crossing=first_below(events, losses, HALF_LN_2),
        loss_at=dict(zip(events.tolist(), losses.tolist(), strict=True)),
        final={
            name: {key: float(rows[key][-1]) for key in ("loss", "accuracy")}
            for name, rows in sets.items()
        },
        induction_strength=over_training["induction"][-1].tolist(),
        induction_since=since(over_training.sequences, over_training["induction"]),
        previous_token_strength=over_training["previous"][-1].tolist(),
        previous_token_since=since(over_training.sequences, over_training["previous"]),
        accuracy=accuracy,
        ablated=ablated.tolist(),
        alone=alone.tolist(),
    )


def _ablations(trained: Trained) -> tuple[np.ndarray, np.ndarray, float]:
    """Accuracy without each head, with only each last-layer head, and with all."""
    inputs = trained.task.inputs(trained.evaluations["train"])
    model = trained.model
    last, heads = len(model.blocks) - 1, model.blocks[-1].attn.num_heads
    each = opto.Zero(_Z).each("layer", "head")
    others = [
        opto.Zero(f"blocks.{last}.attn.z", head=[h for h in range(heads) if h != head])
        for head in range(heads)
    ]
    fixed = trained.edits
    ablated = opto.sweep(answer_accuracy, model, *inputs, edits=(*fixed, each))
    alone = opto.sweep(
        answer_accuracy, model, *inputs, edits=(*fixed, opto.stack(others))
    )
    logits, _ = opto.run(model, *inputs, edits=fixed)
    return (
        np.asarray(ablated),
        np.asarray(alone),
        float(answer_accuracy(logits, *inputs)),
    )


def _figures(
    trained: Trained, findings: DemoFindings, over_training: Replay
) -> dict[str, Figure]:
    learning = curves(trained.run)
    means = {
        metric: {name: rows[metric] for name, rows in learning.numbers.items()}
        for metric in ("loss", "in_context_accuracy")
    }
    last = len(trained.model.blocks) - 1
    return {
        "a_learning": plots.learning_curves(
            learning.events,
            means["loss"],
            means["in_context_accuracy"],
            phase_change=findings.crossing,
            threshold=float(HALF_LN_2),
        ),
        "b_heads": plots.head_strengths(
            over_training.sequences,
            {
                f"induction strength, layer {last}": over_training["induction"],
                "previous-token strength, layer 0": over_training["previous"],
            },
            phase_change=findings.crossing,
        ),
        "c_ablation": plots.ablation(np.array(findings.ablated) - findings.accuracy),
        "d_patterns": _pattern_figure(trained, findings, last),
    }


def _pattern_figure(
    trained: Trained, findings: DemoFindings, last: int, num_sequences: int = 4
) -> Figure:
    """The strongest two induction heads at work, and the previous-token head."""
    sequences = trained.evaluations["train"]
    examples, labels = (x[:num_sequences] for x in trained.task.inputs(sequences))
    _, record = opto.run(
        trained.model,
        examples,
        labels,
        record="blocks.*.attn.pattern",
        edits=trained.edits,
    )
    strongest = np.argsort(findings.induction_strength)[::-1][:2]
    previous = int(np.argmax(findings.previous_token_strength))
    chosen = [*((last, int(head)) for head in strongest), (0, previous)]
    patterns = [
        record[f"blocks.{layer}.attn.pattern"][:, head] for layer, head in chosen
    ]
    kinds = ["induction"] * len(strongest) + ["previous token"]
    names = [
        f"layer {layer}, head {head}\n({kind})"
        for (layer, head), kind in zip(chosen, kinds, strict=True)
    ]
    pairs = len(labels[0]) - 1
    roles = [(role, k) for k in range(pairs) for role in ("exemplar", "label")]
    roles = [*roles, ("query", pairs)]
    tokens = [token_letters(roles, row) for row in np.asarray(labels).tolist()]
    return plots.attention_patterns(np.stack(patterns, 1), tokens, names)


def report(findings: DemoFindings, out: str | os.PathLike) -> str:
    """A text with the findings and the paths of the files, for people to read."""
    out = Path(out)
    best, last = int(np.argmax(findings.induction_strength)), len(findings.ablated) - 1
    crossing = findings.crossing
    when = "never" if crossing is None else f"after {crossing:,.0f} sequences"
    at = [n for n in findings.loss_at if n and n % 100_000 == 0][:4]
    losses = ", ".join(f"{findings.loss_at[n]:.3f} at {n // 1000}k" for n in at)
    lines = [
        f"The loss fell below half of ln 2 {when} ({losses}).",
        "We chose seed 3 for the initial weights. On the default classes, the seeds 0",
        "to 7 fall below half of ln 2 between 225 and 380 thousand sequences.",
        f"Strongest induction heads, layer {last}: strength (halfway there after this "
        "many sequences)",
        _ranked(findings.induction_strength, findings.induction_since),
        "Strongest previous-token heads, layer 0: the same",
        _ranked(findings.previous_token_strength, findings.previous_token_since),
        f"Accuracy {findings.accuracy:.3f}; without head {last}:{best} "
        f"{findings.ablated[-1][best]:.3f}; with it as the only head of its layer "
        f"{findings.alone[best]:.3f}.",
        "At the end            loss  accuracy",
        *(
            f"  {name:18}{row['loss']:.4f}     {row['accuracy']:.3f}"
            for name, row in findings.final.items()
        ),
        f"Figures:    {out / 'figures'}",
        f"Numbers:    {out / 'findings.json'}",
        f"Run folder: {out}",
    ]
    return "\n".join(lines)


def _ranked(strengths: list[float], since: list[float], count: int = 3) -> str:
    order = np.argsort(strengths)[::-1][:count]
    rows = (f"head {k}: {strengths[k]:.2f} ({since[k]:,.0f})" for k in order)
    return "  " + ",  ".join(rows)
