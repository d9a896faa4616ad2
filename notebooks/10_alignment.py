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
# # Which subspace carries the class?
#
# An induction circuit works in two steps. First a *previous-token* head writes, at each
# label, which exemplar stands before it. Then the query looks for the label whose
# exemplar is of its own class. So somewhere in the vector at a label there is the
# answer to the question *which class was before me?* This notebook finds where: it
# learns the subspace that has to be exchanged between two runs so that the model
# answers as if the classes were exchanged, and nothing else (distributed alignment
# search, Geiger et al. 2024, arXiv 2303.02536).

# %%
import jax.numpy as jnp
import numpy as np

import icl
import opto
from icl import plots
from icl.presets.induction import induction
from icl.tasks.exemplar_label import answers, exemplars_swapped
from sweeps import analysis


icl.keep_programs()  # Executed again, the notebook need not compile.
path = analysis.find_run("demo", "clamps/seed-5", "induction/main")
if path is None:  # A minute on two cores.
    path = analysis.runs_folder() / "demo"
    icl.run_experiment(induction(), path)
trained = icl.load(path)
model, task = trained.model, trained.task
# The second control needs the same model before training.
untrained = icl.load(path, checkpoint=trained.run.checkpoints[0]).model
print(f"{path.parent.name}/{path.name}, {trained.run.checkpoints[-1]:,} sequences")

# %% [markdown]
# ## 1 · The question, as a pair of runs
#
# The *source* has its two exemplars exchanged. Its labels stay in place, so the answer
# becomes the other label of the context. If all that layer 0 writes at the labels comes
# from the source, the model answers as the source would.

# %%
SITE = "blocks.0.attn.out"
sequences = trained.evaluations["train"]
inputs = task.inputs(sequences)
source = task.inputs(exemplars_swapped(sequences))
wanted = answers.other_answer(inputs[1])
_, record = opto.run(model, *source, record=SITE)
for tokens in ("exemplar", "label", "query"):
    patch = opto.Patch(SITE, record, pos=tokens)
    logits, _ = opto.run(model, *inputs, edits=[patch])
    share = answers.is_answered(logits, wanted).mean()
    print(f"{SITE} exchanged at tokens {tokens!r}: answers of the source {share:.3f}")

# %% [markdown]
# ## 2 · How many dimensions does it take?
#
# For each rank, a subspace is learnt on three quarters of the pairs. What is drawn is
# the share of the other pairs in which the model gives the source's answer if only this
# subspace is exchanged. There are two controls: a random subspace of the same rank, and
# a subspace that was learnt in the model before training. A search that succeeded there
# would say more about the search than about the model.

# %%
ranks = [1, 2, 4, 8, 16]
at = opto.At(SITE, pos="label").each("layer")
search = dict(loss=answers.answer_loss, correct=answers.is_answered)
search |= dict(batch_size=min(64, len(wanted) // 2))
found = [
    opto.align.find_subspace(
        *(model, inputs, source, wanted),
        at=at,
        rank=rank,
        steps=300,
        untrained=untrained,
        **search,
    )
    for rank in ranks
]
shares = {
    "learnt": [each.accuracy for each in found],
    "random subspace": [each.random for each in found],
    "learnt in the untrained model": [each.untrained for each in found],
}
plots.lines(
    {
        f"{SITE}, at labels": {
            name: plots.Line(np.array(ranks), np.ravel(share), marker="o")
            for name, share in shares.items()
        }
    },
    x="rank of the subspace",
    y="answers of the source (share of pairs)",
)

# %% [markdown]
# ## 3 · Where is it?
#
# The same search in the stream after each layer, at each kind of token. The class of a
# context exemplar is at the labels after layer 0 and nowhere else. After layer 1 it is
# used up: what can be exchanged at the query is the answer.

# %%
rank = 8
print(f"{'rank ' + str(rank):12}", "  layer 0  layer 1   (random)")
for tokens in ("exemplar", "label", "query"):
    here = opto.align.find_subspace(
        *(model, inputs, source, wanted),
        at=opto.At("blocks.*.resid_post", pos=tokens).each("layer"),
        rank=rank,
        steps=300,
        **search,
    )
    learnt = "    ".join(f"{x:.3f}" for x in here.accuracy)
    random = ", ".join(f"{x:.3f}" for x in here.random)
    print(f"{tokens:12}    {learnt}   ({random})")

# %% [markdown]
# ## 4 · Does it hold for classes that the search never saw?
#
# The bases were learnt on the classes of training. Here they are exchanged, and
# removed, on sequences of new classes, next to a random subspace of the same rank. The
# model answers some of these wrongly without any edit; more than that is out of reach.

# %%
learnt = found[ranks.index(rank)].bases[0]
rng = np.random.default_rng(0)
random = jnp.asarray(rng.normal(size=learnt.shape), jnp.float32)
kept = ("train", "heldout_classes")  # Not every run has the second.
for name, these in ((n, s) for n, s in trained.evaluations.items() if n in kept):
    here, there = task.inputs(these), task.inputs(exemplars_swapped(these))
    right, other = here[1][:, -1], answers.other_answer(here[1])
    _, record = opto.run(model, *there, record=SITE)
    edits = {"no edit": []}
    for kind, basis in {"learnt": learnt, "random": random}.items():
        exchange = opto.Patch(SITE, record, basis=basis, pos="label")
        edits[f"{kind} exchanged"] = [exchange]
        edits[f"{kind} removed"] = [opto.Project(SITE, basis, pos="label")]
    print(f"{name:20} right label  other label")
    for edit, value in edits.items():
        logits, _ = opto.run(model, *here, edits=value)
        both = [answers.is_answered(logits, label).mean() for label in (right, other)]
        print(f"  {edit:18}    {both[0]:.3f}        {both[1]:.3f}")

# %% [markdown]
# *Exchanged* and *removed* are two questions. Without the subspace the model still
# often finds the right label: what is left of the class outside of it is weak, but then
# there is nothing stronger.
#
# ## 5 · Who reads it?
#
# The keys of layer 1 read the stream at the labels. For each head, this is the share of
# the learnt subspace that lies in the eight directions that its QK circuit reads as
# keys. A random subspace has 8 of 64 dimensions, .125, in it. (The norm between them
# rescales the stream; this leaves the directions nearly as they are.)

# %%
_, _, keys = opto.circuits.qk(model.blocks[1].attn.head_weights).svd()
inside = np.asarray((jnp.einsum("hkd,rd->hkr", keys, learnt) ** 2).sum((1, 2)) / rank)
_, record = opto.run(model, *inputs, record="blocks.1.attn.pattern")
query = np.asarray(record["blocks.1.attn.pattern"])[:, :, -1]  # [sequence, head, key]
right = np.asarray(inputs[1][:, :2] == inputs[1][:, 2:])  # [sequence, pair]
to_labels = query[:, :, [1, 3]] * np.where(right, 1, -1)[:, None]
strength = to_labels.sum(2).mean(0)
print("         share inside   induction strength")
for head in np.argsort(-inside):
    print(f"head 1:{head}      {inside[head]:.3f}          {strength[head]:+.3f}")
