"""The cost of training, measured before training."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ._fit import prepare
from ._member import Member
from ._steps import evaluator, initial_state, stepper
from .schedules import Training


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of training some members on this machine's devices.

    **Fields:**

    - `compile`: Seconds to compile the programs.
    - `step`: Seconds of one step of all members.
    - `evaluation`: Seconds of one evaluation of all members.
    - `member_bytes`: Memory on a device for each of its members.
    - `shared_bytes`: Memory on a device that its members share.
    - `sharing`: The number of devices that share each member.
    """

    compile: float
    step: float
    evaluation: float
    member_bytes: int
    shared_bytes: int
    sharing: int


def cost(members: Sequence[Member], training: Training) -> Cost:
    """Runs a few steps to measure the cost of training these members."""
    together = prepare(members, training)
    sharing = together.sharing
    fresh = [initial_state(member, training.batch_size) for member in members]
    state = together.stack(fresh)
    start = time.perf_counter()
    few = jnp.asarray(8, jnp.int32)
    steps, step_memory = together.compiled(stepper(training, sharing), state, few)
    look, look_memory = together.compiled(evaluator(sharing), state)
    compiled = time.perf_counter() - start
    step = min(_seconds(steps, state, few) for _ in range(3)) / 8
    evaluation = min(_seconds(look, state) for _ in range(2))
    shared = together.shared_bytes
    total = max(map(_bytes, (step_memory, look_memory)))
    each = max(0, total - shared) / together.on_each
    return Cost(compiled, step, evaluation, round(each), shared, sharing)


def _seconds(call: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call(*args))
    return time.perf_counter() - start


def _bytes(memory: Any) -> int:
    return (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )
