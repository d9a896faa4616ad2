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
# # Does in-context learning stay once it has been learned?
#
# A transformer can find the label of an image in its **context**, where an example of
# the class stands beside its label, or in its **weights**, which have learned the label
# of each class. Singh et al. (2023), "The transient nature of emergent in-context
# learning in transformers" ([2311.08360](https://arxiv.org/abs/2311.08360)), found that
# in-context learning comes, and later goes away, while the loss keeps falling.
#
# Sequences on which the two disagree tell which of them a model uses:
#
# - `flip`: the labels of the two classes in context are **exchanged**. A model is right
#   (1) if it uses the context, and wrong (0) if it uses its weights.
# - `ciwl`, *context-constrained in-weights learning*: the query's class is **not** in
#   the context, but its label is. Only the weights can tell which of the two labels it
#   is.
# - `icl`: the two classes have the labels 0 and 1, so the weights cannot help.
#
# Accuracies are among the labels in context, so chance is 1/2. The set `flip` tells
# whether a model **prefers** the context if its weights contradict it. The set `icl`
# tells whether it **can** use the context if its weights are of no help. The preference
# may go away while the ability stays.
#
# **What differs from the paper.** The paper's classes are a ResNet's features of
# Omniglot's characters, rotated and mirrored. Ours are **synthetic**, but made in the
# same way (`icl.data.TransformedClasses`): a class is a few drawings of a character
# under eight transforms, so classes of one character are alike (the next cell prints
# the settings). At scale `small` the model has two layers of attention instead of
# twelve, two pairs in context instead of eight, and a learning rate of $10^{-4}$. It is
# the model of the coopetition paper ([notebook 04](04_coopetition.ipynb)).
#
# The runs are from `python -m sweeps transience --out runs/transience`. Claims were
# written down before these runs, whose seeds (20 to 24) had not been trained before.
# The rules are in `RESULTS.md` beside this notebook.

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
from sweeps.figures import find_figure, table_of


icl.keep_programs()  # Executed again, the notebook need not compile.
FIGURE = find_figure("transience/preference")  # We draw its runs of several seeds.
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
# Thin lines are seeds; the thick line is their mean, with its interval. An untrained
# model is at chance. A model prefers the context while `flip` is above 1/2.

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
# The same figure, with a color for each seed:

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
# The losses: a fall on `ciwl` shows learning in weights. While in-context learning
# gains, this loss may rise for some time: a **divot**.

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
# `peak` is the largest accuracy after training began. After `below ½ for good`, the
# accuracy on `flip` stays below 1/2; a dash means that it was never above.

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
# The paper's numbers are those of figure 1b of the coopetition paper: the same model on
# features of Omniglot, 12,800 classes, a learning rate of $10^{-5}$ and one seed. If a
# seed never preferred the context, it cannot lose this preference: a low accuracy at
# its end is not transience.

# %%
table_of("transience/preference", scale=study.scale)

# %% [markdown]
# The preference comes above one half in four of the five seeds, and goes away in all
# four: at the end, after 3.2 million sequences, it is at .07 to .28, and still falling.
# Our rule asks for a peak above .6 **and** an end below .2 in the same seed. Two seeds
# have both, so the paper's rise and fall counts as *not reproduced*. In the fifth seed
# in-context learning never comes (`icl` .53). Where it comes, the ability stays (`icl`
# .75 to .85 at the end), while the paper's falls to .6. All end in their weights
# (`ciwl` .91 to .98).
#
# *flip first above 0.5* can be noise at chance: seed 21 is above it at 144,000, and
# then below it again.

# %% [markdown]
# ## Controls: how exemplars vary
#
# These runs have other classes: one mode each (`LowRankClasses`), with no noise, with
# noise along the classes' dimensions, and with independent noise in each feature.
# `icl figure transience/spread` trains them. Claims were written down before the runs;
# there is none about the noises 0.25 and 0.75.

# %%
table_of("transience/spread", scale="small")

# %% [markdown]
# The more a class's exemplars differ along the classes' own dimensions, the earlier and
# the lower the preference for the context ends. Without noise it ends above .88 in all
# three seeds. With independent noise it ends above .75 in two seeds, and never comes in
# the third. Whether the preference goes away thus depends on how exemplars differ.
