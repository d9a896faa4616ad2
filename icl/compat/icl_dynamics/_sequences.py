"""The kinds of sequences in an icl-dynamics config: their contexts and labels."""

import dataclasses

import jax
import numpy as np

from ...tasks.exemplar_label import (
    ClassLabels,
    Context,
    FlippedLabels,
    Labels,
    QueryLabelOnContext,
    Relabel,
    Split,
    SplitPart,
)
from ._options import Options


@dataclasses.dataclass(frozen=True)
class SequenceKind:
    """One kind of sequence, as a config describes it."""

    fields: str
    """The prefix of the names of its fields: `pt` or `pe`."""
    length: int
    burstiness: int
    distractor: bool
    no_support: bool
    unique_rest: bool

    @property
    def rest(self) -> int:
        """The number of items of neither the query's class nor the distractor."""
        return self.length - self.burstiness * (1 + self.distractor)

    def context(self) -> Context:
        """Our context; if `rest_is_free`, it is not quite the same."""
        try:
            if self.burstiness == 0:
                # There, drawing without repeats leaves out the query's class.
                absent = self.no_support or self.unique_rest
                unique = self.unique_rest
                return Context(self.length, 0, no_support=absent, unique_rest=unique)
            # There, no_support with bursts affects only the remaining items.
            return Context(
                self.length,
                self.burstiness,
                distractor=self.distractor,
                unique_rest=self.unique_rest,
            )
        except ValueError as error:
            raise ValueError(f"{self.fields}_burstiness: {error}") from None

    @property
    def rest_is_free(self) -> bool:
        """Whether the rest may also be of the query's class or the distractor's."""
        others_only = self.no_support or self.unique_rest
        return self.burstiness > 0 and self.rest > 0 and not others_only


def training_kinds(options: Options) -> list[SequenceKind]:
    """The kinds of training sequences with a positive share."""
    share = options.mixing_coeffs
    if min(share, default=-1) < 0 or not sum(share) > 0:
        raise ValueError(f"mixing_coeffs must be shares, got {list(share)}")
    if len(options.pt_burstiness) != len(share):
        got = f"{list(options.pt_burstiness)} for {list(share)}"
        wanted = "one entry for each of mixing_coeffs"
        raise ValueError(f"pt_burstiness must have {wanted}, got {got}")
    length = options.train_context_len
    drawn = [index for index, probability in enumerate(share) if probability > 0]
    return [_kind(options, "pt", index, length) for index in drawn]


def _kind(options: Options, fields: str, index: int, length: int) -> SequenceKind:
    flag = lambda name, default: bool(options.entry(f"{fields}_{name}", index, default))
    return SequenceKind(
        fields,
        length,
        options.entry(f"{fields}_burstiness", index, None),
        flag("distract", True),
        flag("no_support", False),
        flag("unique_rest", False),
    )


def labels_of(
    options: Options,
    scheme: str,
    assigned: bool,
    kinds: list[SequenceKind],
    fields: tuple[str, str],
) -> Labels:
    """Our label scheme; `fields` are the names of `scheme` and `assigned` there."""
    count = options.fs_relabel
    known = {"01": Relabel(2), "flip": FlippedLabels()}
    if scheme in ("train", "val", "test", "all") and count:
        split = None if scheme == "all" else _pair_split(options)
        part: SplitPart = "train" if scheme == "all" else scheme
        labels = Relabel(count, split, part)
    elif scheme in known:
        labels = known[scheme]
    elif scheme not in ("None", "train", "val", "test", "all"):
        wanted = "None, train, val, test, all, 01 or flip"
        raise ValueError(f"{fields[0]} must be {wanted}, got {scheme!r}")
    elif assigned and not all(kind.context().no_support for kind in kinds):
        wanted = "a burstiness of 0 with no_support or unique_rest"
        raise ValueError(f"{fields[1]} is supported only with {wanted}, got {kinds}")
    else:
        return QueryLabelOnContext() if assigned else ClassLabels()
    for kind in kinds:
        # There, all other items keep their class's number.
        if not (kind.burstiness and kind.distractor and kind.rest == 0):
            wanted = "the query's class and a distractor fill the context"
            raise ValueError(f"{fields[0]} is supported only if {wanted}, got {kind}")
    return labels


def _pair_split(options: Options) -> Split | None:
    """The label pairs that the run held out, in our numbering of pairs."""
    if options.fs_relabel_split is None:
        return None
    share, count = np.asarray(options.fs_relabel_split), options.fs_relabel
    total = count * (count - 1) // 2
    if len(share) != 3 or not share.min() >= 0 or not share.sum() > 0:
        got = list(options.fs_relabel_split)
        raise ValueError(f"fs_relabel_split must be three shares, got {got}")
    _, val, test = (total * share / share.sum()).astype(int).tolist()
    # Permute like the versions of JAX that the code runs on.
    with jax.threefry_partitionable(False):
        key = jax.random.key(options.fs_relabel_split_seed, impl="threefry2x32")
        permuted = np.asarray(jax.random.permutation(key, total))
    low, high = np.triu_indices(count, 1)
    ours = (high * (high - 1) // 2 + low)[permuted]
    test_pairs, val_pairs, train_pairs = np.split(ours, [test, test + val])
    order = np.concatenate([np.sort(p) for p in (train_pairs, val_pairs, test_pairs)])
    train = total - val - test
    return Split(train, val, test, seed=None, order=tuple(order.tolist()))


def evaluation_kind(options: Options, index: int) -> SequenceKind:
    """The one kind of an evaluation set."""
    length = options.entry("pe_context_len", index, options.train_context_len)
    return _kind(options, "pe", index, length)


def approximations(options: Options) -> list[str]:
    """How our sequences differ from those of the config."""
    kinds = {
        "training": training_kinds(options),
        **{
            f"evaluation set {name!r}": [evaluation_kind(options, index)]
            for index, name in enumerate(options.pe_names)
        },
    }
    free = [name for name, own in kinds.items() if any(k.rest_is_free for k in own)]
    if not free:
        return []
    return [
        f"{', '.join(free)}: context items other than the query's class and the "
        "distractor were drawn from all classes; here they are from the other classes"
    ]
