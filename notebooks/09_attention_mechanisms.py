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
# 256), three seeds (paper: 1) and larger initial weights. It sees 512,000 prompts
# (paper: 6.4 million), the first 96,000 with a curriculum: from 2 components and 5
# points on (paper: 5 and 11). Through three layers, the narrow window reaches back over
# six pairs, and the wide one over the whole prompt; the published ones reach as far
# through 12 layers. Noise and bias are as large beside the function's values as in the
# paper. The runs are from `python -m sweeps attention --out runs/attention`. The claims
# were written before these runs.
#
# Everything below is of these short runs. [The papers' numbers](RESULTS.md) judge the
# errors and the shifts on runs of ten times the steps, one seed of five kinds; there
# the kinds without a softmax have caught up.

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
from sweeps.studies.attention.analysis import prompt_task, robustness, sweeps_of


icl.keep_programs()  # Executed again, the notebook need not compile.
study = Study.read(runs_folder() / "attention")
kinds = ["softmax", "multi-query", "rela", "favor", "rebased", "linear"]
# All kinds learn in all seeds. In seed 12, none is far from the end of its learning.
seed = "seed-12" if "softmax-seed-12" in study.names else "seed-10"
folders = {
    kind: latest_run(study.path / f"{kind}-{seed}")
    for kind in kinds
    if f"{kind}-{seed}" in study.names
}
trained = {kind: icl.load(folder) for kind, folder in folders.items()}
task = prompt_task(folders["softmax"])
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
# numbers of pairs its error is 1.4 times as large, and .07 after ten pairs, where least
# squares has none. FAVOR+, both published kinds and linear attention follow at 1.6 to
# 1.8 times; ReLA and ReBased at 2.3, as one and two of their seeds are slow. The
# published errors at the last point are 34 to 44 times smaller, after 12 times as many
# prompts and in a larger model. As published, the three published kinds without a
# softmax are worse than those with one in every seed.

# %%
drawn_from("attention/loss", study)

# %%
table_of("attention/loss")

# %% [markdown]
# All kinds but ReLA and ReBased reach half of the loss of predicting 0 in all seeds.
# Softmax, multi-query and the wide windows do so during the curriculum (the first
# 96,000 sequences), the others after it. So the window does not delay the start, as we
# had claimed: it limits the end.

# %% [markdown]
# ## Windows
#
# Each layer sees a few tokens back only, in softmax's own model; global tokens are seen
# by all. All errors are after the most pairs, and of the same draws.

# %%
drawn_from("attention/windows", study)

# %%
table_of("attention/windows")

# %% [markdown]
# **As published**, a narrow window costs at least three times softmax's error, in all
# seeds (in the mean 5 times). The wide one costs 3 times in the mean, but one seed
# alone has the factor of 3 that we had asked for. Up to three pairs all are alike.
# Global tokens help a little: here they are two points, without their values. The
# public notebook does not say whether its windows have any.

# %% [markdown]
# ## Each kind under each shift
#
# Each sweep of a shift has its own figure and verdict in [RESULTS.md](RESULTS.md),
# measured on the longer runs: with points in one orthant ReLA and FAVOR+ are worse than
# softmax, as published, and skewed points hurt FAVOR+ and ReBased most, not softmax.
#
# The strength of a shift, for some of the sweeps of limits_of_icl, in one seed. Noise
# is named as for 20 components. Short queries are as hard as long ones: errors are
# divided by the mean square of f. With strong noise the kinds that have learned least
# do best, and skewed points even help ReLA and ReBased.

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
# No single head carries the function. Both heads of layer 1 share the work in softmax
# and multi-query, where they recover .3 to .4 each, and in FAVOR+ (.2 each). In linear
# attention a head of layer 0 recovers .57. A negative number means that one right head
# among wrong ones makes the answer worse than wrong ones alone, as both heads of layer
# 2 do in FAVOR+ and in linear attention.

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
# mislead some head; the same computation, done by all, is not exact there. Softmax and
# multi-query lean on one head of layer 0, ReLA on layer 1. FAVOR+ and linear attention
# lean on both heads of layer 2, too.

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
# **Later layers can be exchanged between kinds, better than between seeds.** Softmax
# takes layer 2 of multi-query, FAVOR+ or linear attention at 1.17 to 1.26 times its
# loss, that of another seed of softmax at 1.5 and 1.6, and its own mean at 1.4. Layer 1
# of FAVOR+ costs softmax 1.4, that of another seed 1.9. So kinds that begin with the
# same weights come to write similar values in the same directions, whatever their
# formula. ReLA's and ReBased's do so least: their layer 2 costs the others more than a
# mean does. Layer 0 cannot be exchanged between most kinds; softmax takes that of
# FAVOR+ at 1.6, and FAVOR+ that of softmax at 2, where another seed's costs 3.4 to 4.
