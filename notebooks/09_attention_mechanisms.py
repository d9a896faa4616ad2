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
# # Which kinds of attention learn a robust regression in context, and why?
#
# A GPT-2 reads points and values of a linear function, x₁ y₁ x₂ y₂ …, and predicts the
# value at each point (Garg et al. 2022, arXiv
# [2208.01066](https://arxiv.org/abs/2208.01066)). The public code
# [limits_of_icl](https://github.com/kenzhengjk/limits_of_icl) exchanges only the kind
# of attention, and asks how well each kind does if the prompts are shifted: longer
# queries, points in one orthant, skewed points, noise.
#
# We add what those figures lack: **least squares**, which is the Bayes predictor of the
# training task, beside each error; shifts that are **checked to change** the prompts
# (two published sweeps did not); and a look **inside**: which heads carry the answer,
# and whether a head of one kind can do its work in another.
#
# **What differs from the paper.** At scale `small` points have 5 components (paper: 20)
# and a prompt has 11 points (paper: 41). The model has 3 layers of 64 (paper: 12 of
# 256), three seeds (paper: 1), larger initial weights and no curriculum. It sees
# 512,000 prompts (paper: 6.4 million). The narrow window has two tokens: in three
# layers it reaches only one pair back, so it cannot learn the task. The wide one
# reaches six pairs. The runs are from `python -m sweeps attention --out
# runs/attention`. The claims were written before these runs.

# %%
import equinox as eqx
import numpy as np

import icl
import opto
from icl import plots
from icl.edits.ablation import ablate_heads, find_heads
from icl.edits.patching import patch_clean
from sweeps.analysis import latest_run, runs_folder, Study, Table
from sweeps.figures import drawn_from, table_of
from sweeps.studies.attention.analysis import robustness, sweeps_of, task_of


icl.keep_programs()  # Executed again, the notebook need not compile.
study = Study.read(runs_folder() / "attention")
kinds = ["softmax", "multi-query", "rela", "favor", "rebased", "linear"]
# In seed 11, every kind is below 0.5 after ten pairs; in the others some are not.
seed = "seed-11" if "softmax-seed-11" in study.names else "seed-10"
folders = {
    kind: latest_run(study.path / f"{kind}-{seed}")
    for kind in kinds
    if f"{kind}-{seed}" in study.names
}
trained = {kind: icl.load(folder) for kind, folder in folders.items()}
task = task_of(folders["softmax"])
print(study)
print(task)

# %% [markdown]
# ## Error by the number of pairs
#
# Bands hold the bootstrap intervals (90 %, over prompts) of all seeds. From as many
# pairs on as there are components, least squares makes no error.

# %%
drawn_from("attention/curves", study)

# %%
table_of("attention/curves")

# %% [markdown]
# Attention with a softmax over all tokens is the nearest to least squares: over all
# numbers of pairs its error is 1.4 times as large, and .06 to .07 after ten pairs,
# where least squares has none. The two kinds with the formulas of the public code
# follow. The published errors at the last point are 20 to 90 times smaller, after 12
# times as many prompts and in a larger model. **ReLA, FAVOR+ and linear attention
# depend on the seed**: two of three seeds of ReLA, and one each of the others, have not
# left a plateau. Windows end where their reach ends.

# %%
drawn_from("attention/loss", study)

# %%
table_of("attention/loss")

# %% [markdown]
# Softmax, multi-query, the two published kinds and the windows of five tokens reach
# half of the loss of predicting 0 in all seeds. The window without global tokens takes
# longer, as it should. Between seeds, times differ by a factor of two.

# %% [markdown]
# ## Each kind under each shift
#
# All errors are after the most pairs, and of the same draws. The row of least squares
# tells what the shift costs someone who knows the training task and computes exactly:
# where it has no error, all error is the model's.

# %%
drawn_from("attention/shifts", study)

# %%
table_of("attention/shifts")

# %% [markdown]
# **As published**: with all points in one orthant, kinds without a softmax are worse
# than those with one, in all seeds. With noise, softmax has 1.1 times the error of
# least squares, at most 1.25.
#
# **Not as published**: among kinds that see all tokens, skewed points hurt softmax the
# least. Longer queries hurt the published ReBased 1.5 times as much as softmax, but
# only one seed of three reaches this factor, which we had asked for. With 5 components
# a skew leaves fewer directions to learn than with 20, so this may be the size.
#
# Two comparisons with the paper say little at this size. The narrow window reaches one
# pair back here and 24 there. Noise of 1.1 is strong beside functions of 5 components:
# predicting 0 has 2.3 times the error of least squares here, and 8.5 times there. And
# the public notebook does not say whether its windows have global tokens.
#
# Points three times as long cost every kind an error of .36 or more, although least
# squares stays exact. So none has learned a rule that is linear in its inputs.

# %% [markdown]
# The strength of a shift, for some of the sweeps of limits_of_icl, in one seed. Short
# queries are as hard as long ones: errors are divided by the mean square of f. With
# strong noise the kinds that have learned least do best.

# %%
sweeps = {
    "query scale": ("query-scale=", 1.0),
    "constrained points": ("constrained=", 0.0),
    "skew": ("skewed=", 0.0),
    "noise": ("noise=", 0.0),
}
names = tuple(
    name
    for name in sweeps_of(task)
    if name == "standard" or any(name.startswith(start) for start, _ in sweeps.values())
)
errors = {kind: robustness(folder, names) for kind, folder in folders.items()}
panels = {}
for title, (start, unshifted) in sweeps.items():
    chosen = [name for name in names if name.startswith(start)]
    x = np.array([unshifted, *(float(name.removeprefix(start)) for name in chosen)])
    panels[title] = {
        kind: plots.Line(
            np.sort(x),
            np.array([found.of(name)[0] for name in ("standard", *chosen)])[
                np.argsort(x, kind="stable")
            ],
        )
        for kind, found in errors.items()
    }
plots.lines(
    panels,
    x="strength of the shift",
    y="squared error ÷ mean square of f",
    scale="log",
)

# %% [markdown]
# ## Which heads carry the values
#
# The signs of all values in the context are exchanged: the function becomes its
# opposite, and so should the prediction. Then one head's output is taken from the run
# with the right signs. **Recovered** is the share of the loss between both runs that
# this head gains back: at 1 it carries the function alone.

# %%
recovered = {}
for kind, run in trained.items():
    batch = run.evaluations["train"]
    opposite = eqx.tree_at(lambda example: example.ys, batch, -batch.ys)
    heads = opto.At("blocks.*.attn.z").each("layer", "head")
    patched = patch_clean(run.model, run.task, batch, opposite, at=heads)
    recovered[kind] = patched.mean().recovered
plots.head_maps(recovered, rows="layer", columns="head", label="recovered")

# %% [markdown]
# No single head carries the function: the best recovers .45 in softmax, .49 in ReBased.
# Two or three heads share the work, in layers 0 and 1 of most kinds. A negative number
# means that one right head among wrong ones makes the answer worse than wrong ones
# alone.

# %% [markdown]
# ## Which heads a shift breaks
#
# A head that the model needs raises the loss if its output is zero. A head that a shift
# **misleads** lowers the loss of shifted prompts if its output is zero. Losses are
# squared errors divided by those of the whole model: below 1, the model does better
# without the head.

# %%
sets = ("train", "skewed", "orthant", "twice")
rows = []
for kind, run in trained.items():
    there = [name for name in sets if name in run.evaluations]
    table = opto.sites(run.model, *run.task.inputs(run.evaluations["train"]))
    every = find_heads(table, "blocks.*.attn.z", "all")
    without = {}
    for name in there:
        found = ablate_heads(
            run.model,
            run.task,
            run.evaluations[name],
            every,
            summaries=run.summaries,
        )
        whole, each, _ = found.of("loss")
        without[name] = {head: loss / whole for head, loss in each.items()}
    rows += [
        (f"{kind} {layer}:{head}", *(without[name][layer, head] for name in there))
        for layer, head in every
    ]
Table(("without the head", *there), rows)

# %% [markdown]
# No number is below 1: **no shift turns a head against the answer**. A shift does not
# mislead some head; the same computation, done by all, is not exact there. Every kind
# leans on one or two heads. In softmax, multi-query and FAVOR+ it is a head of layer 0,
# in ReBased both heads of layer 1.

# %% [markdown]
# ## Heads of one kind in another
#
# All kinds of a seed began with the same weights, and their attention layers have
# outputs of one shape. So the output of a layer's attention can be taken from another
# kind, on the same prompts. Rows receive, columns give; on the diagonal nothing
# changes. If a layer of another kind does the same work in the same directions, the
# loss stays near the receiver's own. Else it rises, at least as if the layer were
# replaced by its mean, which is the last column. Numbers are losses divided by the
# receiver's own.

# %%
batch = trained["softmax"].evaluations["train"]
inputs = task.inputs(batch)
given = {
    kind: opto.run(run.model, *inputs, record="blocks.*.attn.out")[1]
    for kind, run in trained.items()
}
table = opto.sites(trained["softmax"].model, *inputs)
sites = [site for site in table if site.endswith(".attn.out")]
for site in sites:
    rows = []
    for kind, run in trained.items():
        edits = [opto.Patch(site, record) for record in given.values()]
        losses = [
            float(np.mean((opto.run(run.model, *inputs, edits=one)[0] - batch.ys) ** 2))
            for one in ([], *([edit] for edit in edits), [opto.Mean(site, given[kind])])
        ]
        rows.append((kind, *(loss / losses[0] for loss in losses[1:])))
    print(site)
    print(Table(("receives", *given, "mean of its own"), rows))

# %% [markdown]
# A seed of the same kind is the control: if heads of another seed fit no better than
# heads of another kind, the layers differ by their random start, not by their kind.

# %%
rows = []
for kind, run in trained.items():
    seeds = {name for name in study.names if name.startswith(f"{kind}-seed-")}
    others = [
        latest_run(study.path / name) for name in sorted(seeds - {f"{kind}-{seed}"})
    ]
    for other in others:
        _, record = opto.run(icl.load(other).model, *inputs, record=sites)
        whole, *losses = (
            float(np.mean((opto.run(run.model, *inputs, edits=one)[0] - batch.ys) ** 2))
            for one in ([], *([opto.Patch(site, record)] for site in sites))
        )
        rows.append((other.name, *(loss / whole for loss in losses)))
Table(("from the seed", *sites), rows or [("one seed only", *("–" for _ in sites))])

# %% [markdown]
# **Layer 1 can be exchanged between kinds, better than between seeds.** Softmax takes
# that of multi-query or FAVOR+ at 1.5 and 1.4 times its loss; of another seed of
# softmax at 2.0 and 2.4; and its own mean costs 1.7. ReBased takes that of FAVOR+ or
# softmax at 1.04 and 1.08. So kinds that begin with the same weights come to write the
# same values in the same directions, whatever their formula, and linear attention does
# not. Layer 0 cannot be exchanged: it is as foreign between kinds as between seeds, but
# for ReBased, which takes that of softmax as it takes its mean.
