"""A task that the package does not have: predict the next token of a sequence."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

import opto
from icl.protocols import Input, Interface, TaskConfig


class Sequence(eqx.Module):
    ids: Int[Array, "*batch seq"]


@dataclasses.dataclass(frozen=True)
class NextToken(TaskConfig):
    """Random tokens; the loss is the mean cross-entropy of all but the first."""

    vocabulary: int = 7
    length: int = 6

    @property
    def interface(self):
        ids = Input("ids", (self.length,), "int32", self.vocabulary)
        return Interface((ids,), self.vocabulary)

    def sample(self, *, key, seen=0):
        return Sequence(jax.random.randint(key, (self.length,), 0, self.vocabulary))

    def inputs(self, example):
        return (example.ids,)

    def forward(self, model, example, *, tap=opto.identity):
        return model(example.ids, tap=tap)

    def metrics(self, logits, example):
        log = jax.nn.log_softmax(logits[:-1])
        chosen = jnp.take_along_axis(log, example.ids[1:, None], 1)
        return {"loss": -chosen.mean()}
