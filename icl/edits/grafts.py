"""Reads edits from texts and loads the models that their grafts name by path."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax

import opto

from ..batches import example_of
from ..plugins import import_installed, scan
from ..runs import Run
from ..training import last_checkpoint
from .donors import Donor, read_donor
from .names import filled, names


Edits = tuple[opto.toolkit.AbstractEdit, ...]


def read_edits(texts: Iterable[str]) -> Edits:
    """Reads edits from texts and loads the models of their grafts.

    **Raises:** `ValueError` as `opto.parse` and `loaded`.
    """
    return loaded(map(parse_edit, texts))


def loaded(edits: Iterable[opto.toolkit.AbstractEdit]) -> Edits:
    """Loads a model into each `opto.Graft` that names a path.

    Grafts inside other edits are loaded too. A path, relative to the working directory,
    is one of these:

    - A run folder, ours or of icl-dynamics. The graft gets its model at the graft's
        checkpoint. First come the edits that the run was trained under (not those of
        layers before `from_=`), then the graft's own edits.
    - A checkpoint file of icl-dynamics, `…/checkpoints/N.eqx` with `…/config.json`. The
        graft gets its model, with only the graft's own edits.

    **Raises:** `ValueError` for a path or checkpoint that does not exist, and for a run
    whose own edits graft from that same run.
    """
    return jax.tree.map(_loaded, tuple(edits), is_leaf=_is_graft)


def check_grafts(edits: Iterable[opto.toolkit.AbstractEdit], task: Any) -> None:
    """Raises `ValueError` if a graft's model cannot take the task's examples."""
    for graft in filter(_is_graft, jax.tree.leaves(tuple(edits), is_leaf=_is_graft)):
        try:
            forward = opto.toolkit.lift(task.forward)
            eqx.filter_eval_shape(forward, graft.model, example_of(task))
        except (AttributeError, TypeError, ValueError) as error:
            what = f"{graft!r}: its model cannot take the task's examples"
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{what}: {reason}") from error
        check_grafts(graft.edits, task)


def last_checkpoint_at(path: str) -> int:
    """The last checkpoint of the run at a path; -1 if the path is a file.

    **Raises:** `ValueError` if there is no run or no checkpoint, or if its last
        checkpoint is gone.
    """
    return -1 if os.path.isfile(path) else last_checkpoint(Run(path))


def pinned(
    texts: Iterable[str], last: Callable[[str], int] = last_checkpoint_at
) -> tuple[str, ...]:
    """The texts, with absolute paths and checkpoint numbers in their grafts.

    Such a text means the same from any working directory, and still does after the
    other run has trained further. Texts without grafts are not changed, and names of
    heads stay in the texts.

    **Arguments:**

    - `last`: Gives the last checkpoint of the run at an absolute path; by default, its
        last checkpoint now.

    **Raises:** `ValueError` as `opto.parse` and `last`.
    """
    return tuple(_pinned_text(text, last) for text in texts)


def sources(texts: Iterable[str]) -> list[tuple[str, int]]:
    """The paths that the grafts in the texts name, each with its checkpoint.

    **Raises:** `ValueError` as `opto.parse`.
    """
    found: list[tuple[str, int]] = []

    def note(leaf: Any) -> None:
        if _is_graft(leaf):
            if leaf.source is not None:
                found.append((leaf.source, leaf.checkpoint))
            jax.tree.map(note, leaf.edits, is_leaf=_is_graft)

    edits = tuple(parse_edit(filled(text, _stand_ins(text))) for text in texts)
    jax.tree.map(note, edits, is_leaf=_is_graft)
    return found


def with_models(edits: Edits, model: Callable[[opto.Graft], Any]) -> Edits:
    """The edits, in which each graft has the model `model(graft)` and no path.

    The members of one program may graft from different runs. Only the arrays of an edit
    may differ between members, and a path is not an array.
    """

    def one(leaf: Any) -> Any:
        if not _is_graft(leaf):
            return leaf
        edits = jax.tree.map(one, leaf.edits, is_leaf=_is_graft)
        return opto.Graft(model(leaf), until=leaf.until, from_=leaf.from_, edits=edits)

    return jax.tree.map(one, edits, is_leaf=_is_graft)


def _pinned_text(text: str, last: Callable[[str], int]) -> str:
    stand_ins = _stand_ins(text)
    edit = parse_edit(filled(text, stand_ins))
    if not any(map(_is_graft, jax.tree.leaves(edit, is_leaf=_is_graft))):
        return text

    def one(leaf: Any) -> Any:
        if not _is_graft(leaf) or leaf.source is None:
            return leaf
        path, checkpoint = os.path.abspath(leaf.source), leaf.checkpoint
        if checkpoint == -1:
            checkpoint = last(path)
        edits = jax.tree.map(one, leaf.edits, is_leaf=_is_graft)
        return _remade(leaf, path, checkpoint, edits)

    whole = jax.tree.map(one, edit, is_leaf=_is_graft).text()
    for name, number in stand_ins.items():
        whole = whole.replace(str(number), f"{{{name}}}")
    return whole


def _stand_ins(text: str) -> dict[str, int]:
    """For each name in a text, a number that does not occur in the text."""
    free = (n for n in range(2_000_000_000, 2**31) if str(n) not in text)
    return dict(zip(names(text), free, strict=False))


def parse_edit(text: str) -> opto.toolkit.AbstractEdit:
    """Reads an edit from its text; its grafts keep their paths and have no model yet.

    The text may name anything that plug-ins and the files of this package register.

    **Raises:** `ValueError` as `opto.parse`, and for a module that cannot be imported.
    """
    scan(__package__)
    # Plug-ins register edits too; the configs of imported runs name them.
    import_installed()
    return opto.parse(text)


def _is_graft(leaf: Any) -> bool:
    return isinstance(leaf, opto.Graft)


def _loaded(leaf: Any) -> Any:
    if not _is_graft(leaf):
        return leaf
    edits = loaded(leaf.edits)
    if leaf.source is None or leaf.model is not None:
        return eqx.tree_at(lambda g: g.edits, leaf, edits) if edits else leaf
    try:
        donor = read_donor(leaf.source, leaf.checkpoint, "graft from")
        own = _edits_of_taken_layers(leaf, donor)
    except ValueError as error:
        raise ValueError(f"Graft({leaf.source!r}): {error}") from None
    # A graft that was loaded before already has these edits in its text.
    if [x.text() for x in edits[: len(own)]] != [x.text() for x in own]:
        edits = (*own, *edits)
    return _remade(leaf, leaf.source, leaf.checkpoint, edits).loaded(donor.model)


def _remade(graft: opto.Graft, path: str, checkpoint: int, edits: Edits) -> opto.Graft:
    return opto.Graft(
        path,
        until=graft.until,
        from_=graft.from_,
        checkpoint=checkpoint,
        edits=edits,
    )


def _edits_of_taken_layers(graft: opto.Graft, donor: Donor) -> Edits:
    """The edits of the other run, without those of layers that this model replaces."""
    if graft.from_ is None or not donor.edits:
        return donor.edits
    table = opto.sites(donor.model, *donor.inputs)
    replaced = opto.Graft(donor.model, until=graft.from_ - 1)

    def is_taken(edit: opto.toolkit.AbstractEdit) -> bool:
        opto.toolkit.check([edit], table)
        try:
            opto.toolkit.check([replaced, edit], table)
        except ValueError:
            return False
        return True

    return tuple(filter(is_taken, donor.edits))
