"""The same model for exemplars that are known beforehand, embedded once."""

import dataclasses

import equinox as eqx
from jaxtyping import Array, Float

from ._exemplar_label import ExemplarLabelModel
from ._init import per_token


def with_known_exemplars(
    model: ExemplarLabelModel, examples: Float[Array, "id dim"]
) -> ExemplarLabelModel:
    """A model that takes the ids of some exemplars where `model` takes vectors.

    It gives what `model` gives for `examples[id]`, to rounding. Whoever runs it on many
    sequences of few exemplars embeds each of them once.
    """
    layer = model.embedding.exemplar
    table = eqx.nn.Embedding(weight=per_token(layer, examples))
    embedding = dataclasses.replace(model.embedding, exemplar=table)
    return dataclasses.replace(
        model, embedding=embedding, input_axes=("exemplar", "exemplar")
    )
