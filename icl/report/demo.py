"""The demo: train until induction heads form, and look at them."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
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
from ..tasks.exemplar_label.answers import sequence_letters


_Z = "blocks.*.attn.z"
_ABLATED_SETS = ("train", "heldout_classes")


@dataclasses.dataclass(frozen=True)
class Effects:
    """A number of one evaluation set under ablations of heads.

    **Fields:**

    - `nothing`: With nothing ablated, from the same forward as the others.
    - `head`: With one head ablated, `[layer][head]`.
    - `layer`: With all heads of a layer ablated, `[layer]`.
    - `only_head`: With one head of the last layer left in that layer, `[head]`.
    """

    nothing: float
    head: list[list[float]]
    layer: list[float]
    only_head: list[float]


@dataclasses.dataclass(frozen=True)
class Ablations:
    """The loss (nats) and the accuracy of one evaluation set under ablations."""

    loss: Effects
    accuracy: Effects


@dataclasses.dataclass(frozen=True)
class DemoFindings:
    """What the demo measured, on the evaluation set `train` unless a field says more.

    **Fields:**

    - `crossing`: Sequences seen when the loss first falls below half of ln 2; `None` if
        it never does.
    - `loss_at`: The loss by sequences seen.
    - `final`: Final loss and accuracy, by evaluation set.
    - `induction_strength`, `previous_token_strength`: Final strengths of the heads of
        the last layer and of the first layer, `[head]`.
    - `induction_since`, `previous_token_since`: Sequences seen when each head's
        strength is halfway from its lowest to its final value.
    - `ablations`: What ablating heads does at the end, for the evaluation sets `train`
        and `heldout_classes`.
    """

    crossing: float | None
    loss_at: dict[int, float]
    final: dict[str, dict[str, float]]
    induction_strength: list[float]
    induction_since: list[float]
    previous_token_strength: list[float]
    previous_token_since: list[float]
    ablations: dict[str, Ablations]


def demo(
    source: Source, out: str | os.PathLike, *, num_sequences: int = 1_000_000
) -> DemoFindings:
    """Runs the main experiment of the induction-head paper and draws four figures.

    Trains into `out` (or continues the run there), replays the checkpoints, ablates
    each head, and writes `out/figures/*.png` and `out/findings.json`.

    **Raises:** `ValueError` if the data is not enough, or if `out` holds another run.
    """
    out = Path(out)
    base = induction(source)
    training = dataclasses.replace(base.training, num_sequences=num_sequences)
    run_experiment(dataclasses.replace(base, training=training), out, resume=True)
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
        ablations={name: _ablations(trained, name) for name in _ABLATED_SETS},
    )


def _ablations(trained: Trained, name: str) -> Ablations:
    """What ablations do to one evaluation set."""
    task, batch = trained.task, trained.evaluations[name]
    model, inputs, fixed = trained.model, task.inputs(batch), trained.edits
    measure = eqx.Partial(_loss_and_accuracy, task, batch)
    last, heads = len(model.blocks) - 1, model.blocks[-1].attn.num_heads
    others = [
        opto.Zero(f"blocks.{last}.attn.z", head=[h for h in range(heads) if h != head])
        for head in range(heads)
    ]
    swept = {
        "head": opto.Zero(_Z).each("layer", "head"),
        "layer": opto.Zero(_Z).each("layer"),
        "only_head": opto.stack(others),
    }
    measured = {
        what: np.asarray(opto.sweep(measure, model, *inputs, edits=(*fixed, edits)))
        for what, edits in swept.items()
    }
    logits, _ = opto.run(model, *inputs, edits=fixed)
    nothing = np.asarray(measure(logits))
    return Ablations(
        *(
            Effects(
                float(nothing[k]),
                **{what: found[..., k].tolist() for what, found in measured.items()},
            )
            for k in range(2)
        )
    )


def _loss_and_accuracy(
    task: Any, batch: PyTree, logits: Float[Array, "example seq label"], *inputs: Array
) -> Float[Array, "2"]:
    found = jax.vmap(task.metrics)(logits[:, -1], batch)
    return jnp.stack([found["loss"].mean(), found["accuracy"].mean()])


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
        "c_ablation": _ablation_figure(findings),
        "d_patterns": _pattern_figure(trained, findings, last),
    }


def _ablation_figure(findings: DemoFindings) -> Figure:
    """What ablating each head changes, on both sets."""
    labels = {"loss": "change in loss (nats)", "accuracy": "change in accuracy"}
    changes: dict[str, dict[str, np.ndarray]] = {x: {} for x in labels.values()}
    layers: dict[str, dict[str, np.ndarray]] = {x: {} for x in labels.values()}
    for name, found in findings.ablations.items():
        for metric, label in labels.items():
            effects: Effects = getattr(found, metric)
            changes[label][name] = np.array(effects.head) - effects.nothing
            layers[label][name] = np.array(effects.layer) - effects.nothing
    colours = dict(zip(labels.values(), ("RdBu_r", "RdBu"), strict=True))
    return plots.change_maps(changes, by_layer=layers, colours=colours)


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
    tokens = sequence_letters(labels)
    return plots.attention_patterns(np.stack(patterns, 1), tokens, names)


def report(findings: DemoFindings, out: str | os.PathLike) -> str:
    """A text with the findings and the paths of the files, for people to read."""
    out = Path(out)
    last = len(findings.ablations["train"].loss.head) - 1
    crossing = findings.crossing
    fell = (
        "The loss never fell below half of ln 2"
        if crossing is None
        else f"The loss fell below half of ln 2 after {crossing:,.0f} sequences"
    )
    at = [n for n in findings.loss_at if n and n % 100_000 == 0][:4]
    losses = ", ".join(f"{findings.loss_at[n]:.3f} at {n // 1000}k" for n in at)
    lines = [
        f"{fell} ({losses})." if losses else f"{fell}.",
        "We chose seed 3 for the initial weights. On the default classes, the seeds 0",
        "to 7 fall below half of ln 2 between 225 and 380 thousand sequences.",
        f"Strongest induction heads, layer {last}: strength (halfway there after this "
        "many sequences)",
        _ranked(findings.induction_strength, findings.induction_since),
        "Strongest previous-token heads, layer 0: the same",
        _ranked(findings.previous_token_strength, findings.previous_token_since),
        "At the end            loss  accuracy",
        *(
            f"  {name:18}{row['loss']:.4f}     {row['accuracy']:.3f}"
            for name, row in findings.final.items()
        ),
        *_ablation_lines(findings, last),
        f"Figures:    {out / 'figures'}",
        f"Numbers:    {out / 'findings.json'}",
        f"Run folder: {out}",
    ]
    return "\n".join(lines)


def _ablation_lines(findings: DemoFindings, last: int) -> list[str]:
    """A table of losses and accuracies, and what it says of the strongest head."""
    best = int(np.argmax(findings.induction_strength))
    columns = "".join(f"{name:>18}" for name in findings.ablations)
    lines = [f"{'Loss (accuracy) without':28}{columns}"]
    rows = {
        "nothing": lambda x: x.nothing,
        f"head {last}:{best}, the strongest": lambda x: x.head[last][best],
        f"all other heads of layer {last}": lambda x: x.only_head[best],
        **{
            f"all heads of layer {k}": lambda x, k=k: x.layer[k]
            for k in range(last + 1)
        },
    }
    for name, of in rows.items():
        cells = (
            f"{of(x.loss):.4f} ({of(x.accuracy):.3f})"
            for x in findings.ablations.values()
        )
        lines.append(f"  {name:26}" + "".join(f"{cell:>18}" for cell in cells))
    found = findings.ablations["train"].accuracy
    if found.nothing - found.head[last][best] < 0.01:
        lines += [
            f"Without head {last}:{best}, the accuracy on train is still "
            f"{found.head[last][best]:.3f}: the induction heads are",
            f"redundant. Without all heads of layer {last} it is "
            f"{found.layer[last]:.3f}.",
        ]
    return lines


def _ranked(strengths: list[float], since: list[float], count: int = 3) -> str:
    order = np.argsort(strengths)[::-1][:count]
    rows = (f"head {k}: {strengths[k]:.2f} ({since[k]:,.0f})" for k in order)
    return "  " + ",  ".join(rows)
