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
# # In which stages does in-context learning develop?
#
# The loss of a model may be level while the model changes, and may fall for several
# reasons. The **local learning coefficient** (LLC) of its weights says how degenerate
# the loss is around them: the more directions leave it as it is, the smaller the LLC,
# and the simpler the model. Hoogland et al. (2024, arXiv
# [2402.02364](https://arxiv.org/abs/2402.02364)) find by it the stages in which a small
# transformer learns regression in context: the LLC rises as the model begins to use
# the context, and later **falls**, although the loss goes on falling.
#
# Here it is estimated at the checkpoints of three studies: their regression, the
# induction head of Singh et al. (2024), and the run in which in-context learning comes
# and goes. Weights are sampled near each checkpoint by SGLD; settings were chosen with
# `icl llc-scan` on other seeds.
#
# The runs are from `python -m sweeps development` and `python -m sweeps transience`.
# Claims were written down before these runs. `small` has 12,000 steps of 256 prompts,
# 1/167 of the paper's prompts, so the last stages of the paper are not seen here.

# %%
import numpy as np

import icl
from icl import measures, plots
from sweeps.analysis import runs_folder, Study, Table
from sweeps.figures import drawn_from, table_of
from sweeps.studies.development import analysis


icl.keep_programs()  # Executed again, the notebook need not compile.
study = Study.read(runs_folder() / "development")
print(study)
for name, value in analysis.SETTINGS.items():
    print(f"{name:14} {value:g}")

# %% [markdown]
# ## Regression in context
#
# Each prompt has eight points of a linear function of its own, with noise. The loss of
# a model that ignores the context is the variance of the values; the best that can be
# done with the context is the Bayes predictor's, ridge regression.

# The first estimates are below zero: there the loss still falls steeply in some
# direction, so the weights are at no minimum, and nothing is said about them. Then the
# LLC is near 10, and rises to 61 to 68 while the loss falls from 4.2 to 2.5: the
# model begins to use the context. From 200,000 to 3 million prompts it **falls** by 18,
# and the loss falls from 2.27 to 1.98. This is the paper's rise and fall.

# %%
drawn_from("development/regression", study)

# %%
table_of("development/regression", scale=study.scale)

# %% [markdown]
# ### The stages of one run
#
# `measures.stages` divides a curve into rises, falls and plateaus by its slope over the
# logarithm of time. Here is the smoothed LLC of the first seed.

# %%
(folder, *_) = [study.path / name for name in study if name.startswith("regression")]
found = analysis.developed(folder)
curve = analysis.smooth(found.coefficients["all"])
parts = measures.stages(found.seen, curve)
Table(
    ("stage", "from (10³ prompts)", "to (10³ prompts)", "change of the LLC"),
    [(part.kind, part.start / 1e3, part.end / 1e3, part.change) for part in parts],
)

# %% [markdown]
# ### How the outputs move
#
# The predictions on 4096 prompts are a point for each checkpoint (*essential
# dynamics*). Few directions have most of its movement: three have 87 %. Our rule, from
# the paper's figures, asked for 90 %, so this claim is *not reproduced*.

# %%
path = analysis.essential(folder)
print("shares:", path.shares.round(3))
first, second = path.scores[:, :2].T
plots.lines(
    {"outputs, checkpoint by checkpoint": {folder.name: plots.Line(first, second)}},
    x="first component",
    y="second component",
)

# %%
plots.lines(
    {
        folder.name: {
            f"component {k + 1}": plots.Line(np.log10(found.seen), scores)
            for k, scores in enumerate(path.scores.T)
        }
    },
    x="log₁₀ of prompts seen",
    y="score",
)

# %% [markdown]
# ## An induction head
#
# The loss is level, falls within a short time, and is level again. The LLC says that
# something builds up: all weights, and those of each layer (a *refined* LLC, for which
# only these weights move). From the plateau to its peak it doubles for all weights, and
# nearly triples for layer 0, where previous-token heads form. Then it falls a little.

# %%
drawn_from("development/induction", study)

# %%
table_of("development/induction", scale=study.scale)

# %% [markdown]
# ## Two strategies in turn
#
# These models first prefer the context, and later their weights ([notebook
# 05](05_transience.ipynb)), while the loss keeps falling. If the second strategy is the
# simpler one, the LLC falls with the change. It does, by a fifth, in all seeds. But it
# also does in seed 24, which never used its context, so the fall alone does not tell
# that a strategy went away. Seeds that use the context have the higher LLC.

# %%
transience = Study.read(runs_folder() / "transience")
drawn_from("development/strategies", transience)

# %%
table_of("development/strategies", scale=transience.scale)
