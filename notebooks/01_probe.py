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
# # What is inside a trained model?
#
# A small transformer was trained on sequences such as
#
# > exemplar of class A, **label 3**, exemplar of class B, **label 1**, exemplar of
# > class A, **?**
#
# where classes get new labels in every sequence, so that only the context tells the
# answer. In ten steps, this notebook takes the model apart: it records, ablates,
# patches and clamps, and replays the training. All of this rests on one idea: a model
# names its intermediate values, and an *edit* replaces them.

# %%
import numpy as np

import icl
import opto
from icl import measures, plots
from icl.edits import Induction
from icl.presets.induction import induction
from icl.tasks.exemplar_label import answers, exemplars_swapped
from sweeps import analysis


icl.keep_programs()  # Executed again, the notebook need not compile.
path = analysis.find_run("demo", "clamps/seed-5", "induction/main")
if path is None:  # A minute on two cores.
    path = analysis.runs_folder() / "demo"
    icl.run_experiment(induction(), path)
trained = icl.load(path)
model, task, sequences = trained.model, trained.task, trained.evaluations["train"]
inputs = examples, labels = task.inputs(sequences)
scale = analysis.Study.read(path.parent).scale or "its own"
print(f"{path.parent.name}/{path.name} (scale: {scale}), after", end=" ")
print(f"{trained.run.checkpoints[-1]:,} sequences; evaluated on {len(labels)} others")

# %% [markdown]
# ## 1 · What you can look at
#
# The table lists every *site* with its named axes, in the order of computation. Making
# it computes nothing. Every site in it can be recorded, and every site that can be
# recorded can be edited.

# %%
opto.sites(model, *inputs)

# %% [markdown]
# ## 2 · How it learned
#
# `icl.replay` takes measures at every checkpoint of the run. For a long time nothing
# seems to happen; then the loss falls. This is the *phase change*. The mark is where
# the loss is half of ln 2; ln 2 is the loss of a guess between the two labels in
# context.

# %%
over_training = icl.replay(
    trained,
    {
        "loss": measures.task_metric(task, "loss"),
        "induction": measures.induction_strength(),
        "previous": measures.previous_token_strength(),
    },
)
seen, loss = over_training.sequences, over_training["loss"]
change = analysis.crossing(seen, loss)
change = change if np.isfinite(change) else None
plots.traces(
    seen,
    loss[:, None],
    label="loss (nats)",
    limits=(0, None),
    threshold=analysis.HALF,
    phase_change=change,
)

# %% [markdown]
# ## 3 · What forms inside
#
# Two kinds of heads appear. In *previous-token* heads of layer 0, labels learn to
# attend to the exemplar before them. In *induction* heads of layer 1, the query learns
# to attend to the label after the exemplar of its own class. The induction strength is
# the attention to the right label minus that to the wrong one. Which heads these are
# differs from seed to seed, so we measure it.

# %%
induction = measures.strongest(over_training["induction"][-1], 2, layer=1)
previous = measures.strongest(over_training["previous"][-1], 2, layer=0)
print("induction heads (layer, head):", induction, "previous-token heads:", previous)
plots.head_strengths(
    seen,
    {
        "previous-token strength, layer 0": over_training["previous"][:, 0],
        "induction strength, layer 1": over_training["induction"][:, 1],
    },
    phase_change=change,
)

# %% [markdown]
# ## 4 · See them at work
#
# `opto.run` runs the model and records the sites that you ask for.

# %%
few = examples[:4], labels[:4]
_, record = opto.run(model, *few, record="blocks.*.attn.pattern")
shown = [previous[0], *induction]
kinds = ["previous token", "induction", "induction"]
plots.attention_patterns(
    np.stack([record[f"blocks.{layer}.attn.pattern"][:, h] for layer, h in shown], 1),
    answers.sequence_letters(few[1]),
    [f"head {i}:{h}\n({kind})" for (i, h), kind in zip(shown, kinds, strict=True)],
)

# %% [markdown]
# ## 5 · Ablate every head, in one call
#
# An edit with `.each(…)` stands for many edits. `opto.sweep` runs them all in one
# compiled program.

# %%
heads = opto.Zero("blocks.*.attn.z").each("layer", "head")
accuracy = answers.answer_accuracy(opto.run(model, *inputs)[0], *inputs)
ablated = opto.sweep(answers.answer_accuracy, model, *inputs, edits=heads)
print(f"accuracy with all heads: {accuracy:.3f}")
plots.ablation(np.asarray(ablated - accuracy))

# %% [markdown]
# If there are several induction heads, removing one of them changes little.
#
# ## 6 · The same from one backward pass
#
# The *logit difference* is the logit of the right label minus that of the other label
# in context. Its derivative with respect to the strength of each ablation, at strength
# zero, estimates the effect of the ablation. On the line, the estimate is exact. A head
# is off the line if other heads replace it, or if its effect saturates.

# %%
whole = answers.logit_difference(opto.run(model, *inputs)[0], *inputs)
effect = opto.sweep(answers.logit_difference, model, *inputs, edits=heads) - whole
estimate = opto.strength_grad(answers.logit_difference, model, *inputs, edits=heads)
layers = {f"layer {i}": (estimate[i], effect[i]) for i in range(len(model.blocks))}
plots.dots(
    {"": {name: tuple(map(np.asarray, each)) for name, each in layers.items()}},
    x="estimated change of the logit difference (nats)",
    y="change when ablated (nats)",
    names={name: [*map(str, range(effect.shape[1]))] for name in layers},
    by="head",
    identity=True,
)

# %% [markdown]
# Heads of layer 0 are far off, some with the wrong sign. Their effect is not linear in
# the strength of the ablation: a head that is weakened a little changes almost nothing.
# So the derivative at strength zero is near zero, and its sign means nothing. Here is
# the head with the largest effect.

# %%
strengths = np.linspace(0, 1, 6)
strongest = int(np.argmin(effect[0]))
partly = opto.stack(
    [opto.Zero("blocks.0.attn.z", head=strongest, strength=s) for s in strengths]
)
by_strength = opto.sweep(answers.logit_difference, model, *inputs, edits=partly) - whole
for s, change in zip(strengths, by_strength, strict=True):
    print(f"head 0:{strongest} at strength {s:.1f}: {float(change):+.2f} nats")

# %% [markdown]
# ## 7 · How does layer 0 act on layer 1?
#
# Path patching: we exchange the two exemplars of the context, which reverses the
# answer. Each head of layer 0 then writes what it writes on this exchanged input, but
# only the keys, the queries or the values of layer 1 see it. At 1 the answer would be
# fully reversed.

# %%
swapped = task.inputs(exemplars_swapped(sequences))
other = answers.logit_difference(opto.run(model, *swapped)[0], *inputs)
turned = {
    name: opto.patching.path_patch(
        answers.logit_difference,
        model,
        inputs,
        swapped,
        senders=opto.At("blocks.0.attn.z").each("head"),
        receivers=opto.At(f"blocks.1.attn.{site}"),
    )
    for name, site in {"keys": "k", "queries": "q", "values": "v"}.items()
}
plots.bars(
    {
        "": {
            name: np.asarray((whole - patched) / (whole - other))
            for name, patched in turned.items()
        }
    },
    [*map(str, range(model.blocks[0].attn.num_heads))],
    label="share of the way to\nthe other answer",
    of="head of layer 0",
    by="seen by layer 1's",
    line=0,
)

# %% [markdown]
# In an induction circuit, layer 0 acts through the keys, and its previous-token heads
# matter: they tell each label's token which exemplar it belongs to.
#
# ## 8 · What was missing on the plateau?
#
# At each checkpoint, clamp a part of the circuit to what it will become. Here this is
# the match: a head's query attends to the right label. If the loss is lower then, the
# rest of the circuit (copying what is attended to) was there already. The loss does not
# show this progress.

# %%
plain = measures.task_metric(task, "loss")
heads = [(1, head) for head in range(model.blocks[1].attn.num_heads)]
clamped = icl.replay(
    trained,
    {
        "nothing": plain,
        "the strongest head's match": measures.match_clamped(plain, induction[:1]),
        "that of all heads": measures.match_clamped(plain, heads),
    },
)
plots.traces(
    clamped.sequences,
    np.stack([*clamped.values.values()], 1),
    groups=[*clamped.values],
    label="loss (nats)",
    by="clamped",
    limits=(0, None),
    phase_change=change,
)

# %% [markdown]
# ## 9 · Where does the answer appear?
#
# The *logit lens* reads earlier points of the residual stream as if they were the last.
# *Direct logit attribution* shows how much of the logit difference each part writes
# itself, directly to the output.

# %%
stream, places = opto.lens.logit_lens(model, *inputs, sites=["embed", "**.resid_post"])
terms, parts = opto.lens.logit_terms(model, *inputs)
lens = [float(answers.logit_difference(x, *inputs)) for x in stream]
wrote = [float(answers.logit_difference(x, *inputs)) for x in terms]
for place, x in zip(places, lens, strict=True):
    print(f"{place:20}{x:6.2f} nats")
plots.bars(
    {"": {"written": np.array(wrote)}},
    parts,
    label="logit difference (nats)",
    of="",
    line=0,
)

# %% [markdown]
# ## 10 · Turn the knob
#
# An edit has a strength, and `opto.stack` puts any edits side by side. Here heads
# attend only to the right label, only to the wrong one, or to both in any proportion.
# The model's answer follows the clamped attention, not its input.

# %%
shares = np.linspace(0, 1, 11)
chosen = {"the strongest head": induction[:1], "all heads of layer 1": heads}
differences = {
    name: opto.sweep(
        answers.logit_difference,
        model,
        *inputs,
        edits=opto.stack(
            [opto.attention.Pattern(Induction(share), heads=which) for share in shares]
        ),
    )
    for name, which in chosen.items()
}
plots.dots(
    {"": {name: (shares, np.asarray(each)) for name, each in differences.items()}},
    x="attention to the right label,\nthe rest to the wrong one",
    y="logit difference (nats)",
    by="clamped",
)

# %% [markdown]
# Every edit here also has a text form. It is a pytree that you can sweep and
# differentiate, and you can train a model under it: `02_induction` shows what happens
# then. `opto/guide.md` explains the rest.
