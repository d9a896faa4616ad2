"""When several devices share each batch of a member."""

from collections.abc import Sequence

import equinox as eqx
import jax

import opto

from ..batches import example_of
from ..devices import on_cpu
from ._member import Member
from .freezing import trained_part
from .schedules import Training


# Every device updates all parameters, and they add up all gradients. This pays only if
# a step uses each parameter often. Measured on CPUs (benchmarks/RESULTS.md, "A batch on
# several devices"): of the presets, `coopetition` uses them 20 times and loses, and
# `induction` 115 times and gains.
_LEAST_USES = 50
# On other devices, small steps wait for communication. This number is not measured.
_LEAST_FLOPS_ELSEWHERE = 1e11


def devices_of(members: Sequence[Member], training: Training) -> int:
    """The number of devices that share each batch of members that train together."""
    return sharing(training, members[0], len(jax.local_devices()) // len(members))


def sharing(training: Training, member: Member, devices: int) -> int:
    """How many of a number of devices share each batch of a member.

    It is 1 if sharing would not be faster. Otherwise it is the largest number that
    divides the batch into equal parts of whole microbatches. It depends only on the
    member, the training and the kind of device.
    """
    if devices <= 1:
        return 1
    flops = training.batch_size * _forward_flops(member)
    parameters = jax.tree.leaves(trained_part(member.model, member.freeze)[0])
    if flops < _LEAST_USES * 2 * sum(x.size for x in parameters):
        return 1
    if not on_cpu() and flops < _LEAST_FLOPS_ELSEWHERE:
        return 1
    pieces = training.batch_size // (training.microbatch_size or 1)
    return max(n for n in range(1, devices + 1) if pieces % n == 0)


def _forward_flops(member: Member) -> float:
    """Floating-point operations of the forward pass of one example."""
    forward = opto.toolkit.lift(member.task.forward)
    arrays, static = eqx.partition(member.model, eqx.is_array)

    def fn(arrays, example):
        model = eqx.combine(arrays, static)
        return forward(model, example, edits=member.edits)

    costs = jax.jit(fn).lower(arrays, example_of(member.task)).cost_analysis()
    return float((costs or {}).get("flops", 0.0))
