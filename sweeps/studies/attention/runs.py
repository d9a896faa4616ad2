"""The runs of the study: kinds of attention that learn linear functions in context.

`small` has 5 components, 11 points, three layers of 64 and a curriculum, as in
`icl.presets`; `paper` is as in limits_of_icl, which has one seed and 100,000 steps. At
`small` all kinds have 8000 steps. The five published kinds that see all tokens also
have 80,000, so that shifts show shifts, and not how far training went; there they have
one seed, as published.

Windows count tokens, of which a pair has two. Through all layers together, a narrow one
reaches back over 1.2 times as many pairs as there are components, and a wide one over
the whole prompt, at both scales. Global tokens are points, not values.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from icl import Experiment
from icl.data import Source
from icl.models import (
    ElementwiseRebasedAttention,
    FavorAttention,
    LinearAttention,
    RebasedAttention,
    RelaAttention,
    UnstabilisedFavorAttention,
    Window,
)
from icl.models.gpt2 import GPT2Config
from icl.presets.functions import (
    function_curriculum,
    function_linear,
    function_linear_limits_of_icl,
    function_relu,
    function_sparse,
    function_tree,
)
from icl.protocols import TaskSet
from icl.training.schedules import Every

from ...study import StudyScale, Trial, with_seeds


SEEDS = (10, 11, 12)
"""The seeds at `small`."""

KINDS: Mapping[str, Mapping[str, Any]] = {
    "softmax": {},
    "multi-query": {"num_kv_heads": 1},
    "rela": {"attention": RelaAttention()},
    "favor": {"attention": FavorAttention(64)},
    "favor-published": {"attention": UnstabilisedFavorAttention()},
    "rebased": {"attention": RebasedAttention()},
    "rebased-published": {"attention": ElementwiseRebasedAttention()},
    "linear": {"attention": LinearAttention()},
}
"""By the name of a kind: the fields of its model. Two kinds are as in limits_of_icl,
whose formulas differ from the papers'. FAVOR+ has as many features as that code's kind
has in heads of 32."""

LONGER = ("softmax", "multi-query", "rela", "favor-published", "rebased-published")
"""The published kinds that see all tokens; at `small` they also have more steps."""
TIMES = 10
"""How many times more."""

WINDOWS: Mapping[str, Mapping[str, tuple[int, tuple[int, ...]]]] = {
    "paper": {"narrow": (5, ()), "wide": (15, ()), "global": (15, (20, 40))},
    "small": {"narrow": (5, ()), "wide": (8, ()), "global": (8, (4, 10))},
}
"""The windows of each scale, and their global tokens."""


OTHERS: Mapping[str, Callable[[int], Experiment]] = {
    "sparse": function_sparse,
    "tree": function_tree,
    "network": function_relu,
}
"""Other functions that softmax learns, once each, with more steps; at `small`."""


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    seeds = {"paper": SEEDS[:1], "small": SEEDS, "smoke": SEEDS[:1]}[scale]
    base = _base(scale)
    found = {kind: _with_model(base, **fields) for kind, fields in kinds(scale).items()}
    trials = with_seeds(found, seeds)
    if scale == "small":
        steps = TIMES * base.training.num_steps
        longer = function_curriculum(steps)
        of_kinds = {f"{k}-longer": _with_model(longer, **KINDS[k]) for k in LONGER}
        others = {f"{k}-longer": preset(steps) for k, preset in OTHERS.items()}
        trials += with_seeds({**of_kinds, **others}, seeds[:1])
    return trials


def kinds(scale: StudyScale) -> dict[str, Mapping[str, Any]]:
    """The kinds of a scale by name, with the fields of their models."""
    if scale == "smoke":  # Each is another program.
        few = ("softmax", "rela", "favor", "rebased")
        return {name: KINDS[name] for name in few}
    windows = WINDOWS[scale].items()
    return {**KINDS, **{name: {"mask": Window(*window)} for name, window in windows}}


def _with_model(base: Experiment, **fields: Any) -> Experiment:
    return dataclasses.replace(base, model=dataclasses.replace(base.model, **fields))


def _base(scale: StudyScale) -> Experiment:
    if scale == "paper":
        return function_linear_limits_of_icl()
    if scale == "small":
        return function_curriculum()
    base = function_linear(20)
    tiny = GPT2Config(num_layers=1, d_model=8, num_heads=2, max_length=22)
    often = Every(base.training.seen_sequences // 2)
    return dataclasses.replace(
        base,
        model=tiny,
        training=dataclasses.replace(
            base.training, evaluate_at=often, checkpoint_at=often
        ),
        evaluations={
            name: dataclasses.replace(each, size=20)
            for name, each in base.evaluations.items()
            if isinstance(each, TaskSet)
        },
    )
