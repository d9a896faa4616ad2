# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does learning in context stay once it has been learned?
#
# A transformer can name the class of an image by its **context**, where an example of
# the class stands beside its label, or by its **weights**, in which it has learned what
# each class is called. Singh et al. (2023), "The transient nature of emergent
# in-context learning in transformers"
# ([2311.08360](https://arxiv.org/abs/2311.08360)), found that the first comes, and
# later goes away, while the loss goes on falling.
#
# Which of the two a model uses is read off sequences on which they disagree:
#
# - `flip`: the labels of the two classes in context are **exchanged**. Who answers by
#   the context is right (1), who answers by weights is wrong (0).
# - `ciwl`, *context-constrained in-weights learning*: the query's class is **not** in
#   the context, but its label is. Only weights can tell which of the two it is.
# - `icl`: the two classes are called 0 and 1, which tells nothing to the weights.
#
# Accuracies are among the labels in context, so that 1/2 is chance. So `flip` tells
# whether a model **prefers** the context where its weights deny it, and `icl` whether
# it **can** use the context where its weights are of no help: the preference may go
# while the ability stays.
#
# **What stands in for what.** The paper's classes are Omniglot's images, as a ResNet
# sees them. Here they are **synthetic**: random directions in a space of few
# dimensions, rectified, each with noisy exemplars (which ones is printed below).
# Exemplars vary along the classes' own dimensions (`class_spread=0.5`); the last
# section has the controls, with less, more and other noise. At the scale `small` the
# model has two layers of attention and two pairs in context, in the place of twelve and
# eight, and a learning rate of $10^{-4}$; it is that of the coopetition paper
# ([notebook 04](04_coopetition.ipynb)). The runs are made by `python -m sweeps
# transience --scale small` and `python -m sweeps spread --scale small`. Claims were
# written down before these runs, whose seeds (10 to 19) had not been trained before;
# `RESULTS.md` beside this notebook has the rules.

# %%
import numpy as np

import icl
from icl import plots
from sweeps.analysis import (
    begun,
    logged_curve,
    passage,
    runs_folder,
    Study,
    Table,
    together,
)
from sweeps.figures import drawn_from, find_figure, table_of


FIGURE = find_figure("transience/preference")  # Its runs, of several seeds.
study = Study.read(runs_folder() / "transience")
runs = [*FIGURE.found(begun(study.path)).get("main", {}).values()]
print(study)
for run in runs:
    found = icl.Run(study.path / run)
    length = found.config["training"]["num_sequences"]
    print(f"{run}: {int(found.log.events[-1]):,} of {length:,} sequences")
print(icl.load(study.path / runs[0]).experiment.data if runs else "no data")

# %% [markdown]
# ## Over training
#
# Each seed thin, with the mean and its interval. A model that has not been trained is
# at chance. The context is preferred where `flip` is above 1/2, and not where it is
# below again.

# %%
METRIC = "in_context_accuracy"
SETS = ("flip", "ciwl", "icl")
curves = {
    name: {run: logged_curve(study.path / run, METRIC, data=name) for run in runs}
    for name in SETS
}
losses = {
    name: {run: logged_curve(study.path / run, data=name) for run in runs}
    for name in SETS
}
shown = [name for name in SETS if runs and len(curves[name][runs[0]][0])]
accuracies = {name: together(curves[name]) for name in shown}
sequences = accuracies["flip"][0] if shown else np.zeros(0)

# %%
several = plots.Confidence() if len(runs) > 1 else None
plots.traces(
    sequences,
    {name: values for name, (_, values) in accuracies.items()},
    label="accuracy among\nlabels in context",
    trace="seed",
    band=several,
    limits=(0, 1.02),
    threshold=0.5,
    columns=3,
) if shown else "not run"

# %% [markdown]
# The same by seed:

# %%
plots.traces(
    sequences,
    {name: values for name, (_, values) in accuracies.items()},
    groups=np.array([f"seed {run.rsplit('-', 1)[1]}" for run in runs]),
    label="accuracy among\nlabels in context",
    by="initial weights",
    trace="seed",
    limits=(0, 1.02),
    threshold=0.5,
    columns=3,
) if shown else "not run"

# %% [markdown]
# And the losses, in which learning by weights shows as a fall on `ciwl`. While learning
# in context gains, that may for a while rise: a **divot**.

# %%
plots.traces(
    sequences,
    {name: together(losses[name])[1] for name in shown},
    groups=np.array([f"seed {run.rsplit('-', 1)[1]}" for run in runs]),
    label="loss (nats)",
    by="initial weights",
    trace="seed",
    columns=3,
) if shown else "not run"

# %% [markdown]
# ## The numbers
#
# `peak` is the largest accuracy once training has begun; `flip` is below 1/2 for good
# from `below ½ for good` on, which is a dash if it never was above.

# %%
flips = [passage(*curves["flip"][run]) for run in runs]
icls = [passage(*curves["icl"][run]) for run in runs]
ciwls = [passage(*curves["ciwl"][run]) for run in runs]
columns = (
    "",
    "peak flip",
    "at (10⁶)",
    "below ½ for good (10⁶)",
    "flip at the end",
    "peak ICL",
    "ICL at the end",
    "CIWL at the end",
)
rows = [
    (run, p.peak, p.peak_at / 1e6, p.gone_at / 1e6, p.final, q.peak, q.final, r.final)
    for run, p, q, r in zip(runs, flips, icls, ciwls, strict=True)
]
Table(columns, rows)

# %% [markdown]
# The paper's numbers are those of figure 1b of the coopetition paper: the same model
# on features of Omniglot, 12,800 classes, a learning rate of $10^{-5}$ and one seed. A
# seed in which the context was never preferred has nothing to lose: however low it
# ends, it is no case of transience.

# %%
table_of("transience/preference", scale=study.scale)

# %% [markdown]
# ## Controls: how exemplars vary
#
# The same runs with no noise, with noise along the classes' dimensions, and with
# independent noise in each feature. What is claimed was written down before; of 0.25
# and 0.75 nothing is.

# %%
spread = Study.read(runs_folder() / "spread")
drawn_from("transience/spread", spread)

# %%
table_of("transience/spread", scale=spread.scale or "small")
