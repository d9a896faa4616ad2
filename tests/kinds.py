"""Tables of what there are several kinds of: tasks, and models with a task they fit.

`test_kinds.py` asks of every row what must hold of all. A new kind is a row here, and
in a file of its own only what is true of it alone. The tables of other kinds:
`EDITS` in `tapped.py` for edits of one site, `CASES` in `test_verbs.py` for patterns,
`EDITS` in `test_text.py` for the texts of edits, `TEXTS` in `test_measures.py` for
measures, `OPTIMIZERS` in `test_optimizers.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from regression import linear, regression

from icl.models import (
    exemplar_label_interface,
    Learned,
    NoPositions,
    Rope,
    Sinusoidal,
    TransformerConfig,
)
from icl.tasks import (
    Context,
    ExemplarLabel,
    FlippedLabels,
    Matched,
    Mixture,
    QueryLabelOnContext,
    Relabel,
    Split,
    Zipf,
)


CLASSES, EXEMPLARS, DIM = 6, 3, 7


def exemplar_label(**fields: Any) -> Callable[[], Any]:
    """An exemplar-label task on vectors, made when it is asked for."""
    config = ExemplarLabel(
        class_split=Split(CLASSES, seed=None),
        exemplar_split=Split(EXEMPLARS, seed=None),
        **fields,
    )
    rng = np.random.default_rng(0)
    data = rng.normal(size=(CLASSES, EXEMPLARS, DIM)).astype(np.float32)
    return lambda: config.build(jnp.asarray(data))


MIXTURE = Mixture(
    (Context(3, 1), Context(3, 0), Context(3, 2, no_support=True)), (0.5, 0.3, 0.2)
)
TASKS: dict[str, Callable[[], Any]] = {
    "pair": exemplar_label(),
    "four": exemplar_label(context=Context(4, 1)),
    "relabel": exemplar_label(labels=Relabel(5, split=Split(8, 2))),
    "zipf": exemplar_label(context=Context(4, 1, True), distribution=Zipf(1.0)),
    "matched": exemplar_label(context=MIXTURE, exemplar_choice=Matched()),
    "flipped": exemplar_label(labels=FlippedLabels()),
    "query_label": exemplar_label(
        context=Context(no_support=True), labels=QueryLabelOnContext()
    ),
    "noise": exemplar_label(noise=0.5),
    "regression": regression,
}


@dataclass(frozen=True)
class Model:
    """A kind of model: how one is made from a key, and a task that it fits."""

    build: Callable[[Any], eqx.Module]
    task: str = "four"
    causal: bool = True
    """Whether output *i* is of inputs 0 to *i* alone, along their first axes."""


TRANSFORMERS: dict[str, TransformerConfig] = {
    "paper": TransformerConfig(),
    "mlp": TransformerConfig(mlp_ratio=4.0, num_layers=3, d_model=16, num_heads=2),
    "ragged_heads": TransformerConfig(num_heads=(2, 8)),
    "no_norm": TransformerConfig(layer_norm=False, init_scale=0.5),
    "not_causal": TransformerConfig(causal=False, scale=0.3),
    "qkv_bias": TransformerConfig(qkv_bias=True),
    "learned": TransformerConfig(positions=Learned(32)),
    "sinusoidal": TransformerConfig(positions=Sinusoidal(100.0)),
    "no_positions": TransformerConfig(positions=NoPositions()),
    "rope_30": TransformerConfig(positions=Rope(30.0)),
    "deep": TransformerConfig(num_layers=5),
}


def _model(config: TransformerConfig) -> Model:
    build = lambda key: config.build(
        exemplar_label_interface(CLASSES, dim=DIM), key=key
    )
    return Model(build, causal=config.causal)


MODELS: dict[str, Model] = {
    **{name: _model(config) for name, config in TRANSFORMERS.items()},
    "linear": Model(lambda key: linear(), task="regression", causal=False),
}


def shaken(model: Any, key: Any) -> Any:
    """All arrays away from their initial zeros and ones, so that each one matters."""
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    keys = jax.random.split(key, len(leaves))
    leaves = [
        x + 0.2 * jax.random.normal(k, x.shape)
        for x, k in zip(leaves, keys, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, leaves), model)
