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
# # Does a transformer compute a likelihood-ratio test in context?
#
# An encoder sees labelled points of two Gaussians and one point without a label, and
# gives a logit of label 1 (arXiv [2603.10573](https://arxiv.org/abs/2603.10573)). The
# Gaussians are new in each example. In task A their means are $k + \mu$ and $k - \mu$,
# with an unknown unit vector $\mu$ and an unknown shift $k$. In task B both means are
# 0, and the two variances are unknown.
#
# The paper compares the logit with the **log-likelihood ratio** (LLR) of someone who
# knows $\mu$ and $k$. No one can reach it from a finite context. We also compare with
# the **exact Bayes predictor**: the log-odds of label 1 given only the context. Nothing
# that sees only the context can have a lower expected loss. The **regret** is the
# model's loss minus the loss of this predictor, in nats.
#
# **What differs from the paper.** At scale `small` points have 4 components (paper: 16)
# and the shift's standard deviation is 1/2 (paper: 3). The model has two layers of 64
# (paper: 128). Accuracies are therefore compared as shares of the Bayes predictor's.
# The runs are from `python -m sweeps likelihood_ratio --out runs/likelihood_ratio`. The
# claims were written after trials with seed 5, and are judged on seeds 10 to 14.

# %%
import dataclasses

import numpy as np

import icl
import opto
from icl import plots
from icl.edits.ablation import ablate_heads, find_heads
from icl.measures import discrimination, kernel_fit, label_directions
from sweeps.analysis import latest_run, runs_folder, Study, Table
from sweeps.figures import drawn_from, table_of
from sweeps.studies.likelihood_ratio.analysis import against_bayes, final_rows


icl.keep_programs()  # Executed again, the notebook need not compile.
study = Study.read(runs_folder() / "likelihood_ratio")
main = latest_run(study.path / "shifted-mean-seed-10")
trained = icl.load(main)
print(study)
print(trained.experiment.task)

# %% [markdown]
# ## The logit is near the Bayes log-odds, not the LLR
#
# Each dot is one of 500 new sequences. The model knows as much as the Bayes predictor:
# what is left between the logit and the LLR is what a finite context cannot tell.

# %%
rows = {name: values[:500] for name, values in final_rows(main).items()}
plots.dots(
    {
        "exact Bayes predictor": {"": (rows["log_odds"], rows["logit"])},
        "true parameters": {"": (rows["log_likelihood_ratio"], rows["logit"])},
    },
    x="log-odds of label 1 (nats)",
    y="the model's logit (nats)",
    identity=True,
)

# %%
table_of("likelihood-ratio/bayes")

# %% [markdown]
# The logit is too small where the log-odds are large: the slope of the log-odds on the
# logit is above 1. `A wide` has a shift three times as wide as in training. There the
# Bayes predictor still assumes the training shift, and loses almost nothing. So the
# loss out of distribution is the model's, not the task's; the last section looks for
# its cause.
#
# **At the published size**: 16 components, 32 pairs, a shift of standard deviation 3
# (9 if wide), a model of 128, 15,620 steps of 64 sequences, three seeds. The accuracies
# and the correlations with the LLR are the paper's. But the logit is nearer to Bayes,
# and with a wider shift it is far from Bayes.

# %%
table_of("likelihood-ratio/bayes", scale="paper")

# %% [markdown]
# ## What it needs to learn this
#
# Ablations of the training, each with five seeds. `-longer` has three times the steps:
# a run at chance may still be on its first plateau. `no-labels` can only be at chance:
# if all labels are exchanged, the model sees the same, and the other answer is right.

# %%
drawn_from("likelihood-ratio/ablations", study)

# %%
table_of("likelihood-ratio/ablations")

# %% [markdown]
# As in the paper, positions do not matter, and nothing is learnt without right labels
# or from interleaved tokens, even in three times the steps. Unlike in the paper, the
# model learns with **frozen attention**, and with 40 % **wrong labels** in the context,
# to .95 of Bayes and more. It only leaves the plateau later, as below.
# The published runs may have ended on it: they have 16 components, and escape took 6 to
# 11 of 20 epochs even without an ablation. The rates of `-longer` runs rise for longer,
# so they leave the plateau later, too.

# %%
drawn_from("likelihood-ratio/escape", study)

# %%
table_of("likelihood-ratio/escape")

# %% [markdown]
# ## Where the statistic appears
#
# The **read-out** of a layer is the last layer applied to the query's token there. A
# **probe** is the best linear map of that token, fitted to half of the sequences and
# judged on the other half. After 0 blocks this token is the embedded query.

# %%
by_layer = {
    "read-out: r with Bayes": discrimination.lens_correlation(),
    "probe of Bayes: R²": discrimination.probe(),
    "probe of μ: R²": discrimination.probe("mean"),
    "probe of k: R²": discrimination.probe("shift"),
}
over_training = icl.replay(trained, by_layer)
layers = over_training["probe of μ: R²"].shape[-1]
plots.traces(
    over_training.sequences,
    {name: np.clip(over_training[name], -0.1, 1) for name in by_layer},
    groups=np.array([f"after {k} blocks" for k in range(layers)]),
    label="r or R²",
    by="where",
    trace="layer",
    limits=(-0.1, 1.02),
    columns=2,
)

# %% [markdown]
# ## Which heads carry the classes to the query
#
# Three ways to ask, for each head:
#
# - **patched**: take the head's output at the query from a run in which the labels of
#   the context are exchanged. What share of the change of the answer comes along?
# - **ablated**: by how much does the loss rise if the head's output is zero?
# - **OV**: the cosine between what the head writes for a label and the read-out. It
#   needs no data. The p value is the share of random directions that are aligned at
#   least as well.

# %%
of_heads = {
    "patched": discrimination.exchanged_patching(),
    "OV": label_directions.ov_alignment(),
    "p": label_directions.ov_alignment_p(),
}
found = icl.replay(trained, of_heads, checkpoints=[-1])
batch = trained.evaluations["train"]
table = opto.sites(trained.model, *trained.task.inputs(batch))
site = "blocks.*.attn.z"
ablated = ablate_heads(
    trained.model,
    trained.task,
    batch,
    find_heads(table, site, "all"),
    site=site,
    summaries=trained.summaries,
)
whole, without, _ = ablated.of("loss")
Table(
    ("head", "patched", "loss rises by (nats)", "OV", "p"),
    [
        (
            f"{layer}:{head}",
            float(found["patched"][0, layer, head]),
            loss - whole,
            float(found["OV"][0, layer, head]),
            float(found["p"][0, layer, head]),
        )
        for (layer, head), loss in without.items()
    ],
)

# %% [markdown]
# In this run (seed 10) head 1:0 carries half of the answer, has the best aligned OV,
# and is missed most; head 1:3 comes next. Heads of layer 0 carry little here. This
# differs between seeds: in two of five they carry more than .3, which the table at the
# end of this section counts against our rule.
#
# ## Whether it is the Bayes statistic
#
# **Steering.** Points move along a direction, and the logit changes. If only the query
# moves along $\mu$, the log-odds change. If all points move along $k$, they should not:
# a shift of everything tells nothing.

# %%
moves = {
    "query along μ": discrimination.steering("mean"),
    "context along μ": discrimination.steering("mean", "context"),
    "all points along μ": discrimination.steering("mean", "all"),
    "all points along k": discrimination.steering("shift", "all"),
}
steered = icl.replay(trained, moves, checkpoints=[-1])
Table(
    ("moved by 1", "model (nats)", "Bayes (nats)"),
    [(name, *map(float, steered[name][0])) for name in moves],
)

# %% [markdown]
# **Kernel regression.** The paper compares the logit with a kernel regression on the
# context, and finds little agreement. The exact Bayes predictor agrees no better with
# it, so little agreement does not show that a model computes something else. With a
# fitted kernel, and points measured from the mean of the context, both agree well.

# %%
kernels = {
    f"{kernel}, from the {centre}": (kernel, centre)
    for kernel in ("published", "dot", "bilinear", "gaussian")
    for centre in ("origin", "context")
}
asked = {f"model {name}": kernel_fit.kernel_fit(*k) for name, k in kernels.items()}
asked |= {f"Bayes {n}": kernel_fit.bayes_kernel_fit(*k) for n, k in kernels.items()}
agreement = icl.replay(trained, asked, checkpoints=[-1])
Table(
    ("kernel", "r with the model", "r with Bayes"),
    [
        (
            name,
            float(agreement[f"model {name}"][0]),
            float(agreement[f"Bayes {name}"][0]),
        )
        for name in kernels
    ],
)

# %%
table_of("likelihood-ratio/lens")

# %%
table_of("likelihood-ratio/heads")

# %% [markdown]
# ## Where it breaks out of distribution
#
# The shift of all points grows beyond that of training. The Bayes predictor assumes the
# shift of training throughout.

# %%
task = trained.experiment.task
wider = {
    times: against_bayes(
        main,
        dataclasses.replace(
            task,
            nuisance_std=times * task.nuisance_std,
            assumed_nuisance_std=task.nuisance_std,
        ),
    )
    for times in (0.5, 1, 2, 3, 4, 8)
}
NUMBERS = ("accuracy", "Bayes accuracy", "regret", "r with Bayes", "slope")
Table(
    ("σ of k ÷ training's", *NUMBERS),
    [(times, *(found[name] for name in NUMBERS)) for times, found in wider.items()],
)

# %% [markdown]
# If the shift is wide, how well does the query's token give it, and does the model
# still ignore a shift of all points? Below are the probes and the steering from above
# on the set `wide_shift`. The query's token still gives the shift, and the logit still
# ignores a shift of all points. But the probe of $\mu$ is weaker, and so are the
# answers to moves along $\mu$: the model keeps ignoring the shift and loses the signal.

# %%
wide = icl.replay(trained, {**by_layer, **moves}, data="wide_shift", checkpoints=[-1])
Table(
    ("on wide_shift", *(f"after {k} blocks" for k in range(layers))),
    [(name, *map(float, wide[name][0])) for name in by_layer],
)

# %%
Table(
    ("moved by 1", "model (nats)", "Bayes (nats)"),
    [(name, *map(float, wide[name][0])) for name in moves],
)
