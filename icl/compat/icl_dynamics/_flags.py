"""icl-dynamics' `--opto_…` flags as our edits, with that code's meaning.

Unexpected behaviour is kept: preserved patterns carry gradient; a temperature replaces
the scores of the whole layer by those of the unedited run; copies read the unedited
run; patterns of induction and match heads do not sum to one when labels repeat; and the
edits of a model that is grafted out are dropped.
"""

import argparse
import contextlib
import dataclasses
import os
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from opto import Freeze, Graft, Scale, Zero
from opto.attention import Block, Pattern, PreviousToken
from opto.toolkit import AbstractEdit

from ...edits import CopyFromPattern, PerfectPreviousToken
from .._config import read_file
from ._kinds import SilenceNonLabels, UnnormalisedInduction, UnnormalisedMatch
from ._weights import load_model


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The fields of a config that begin with `opto_`, without this prefix."""

    specific_fn: str | None = None
    induction_heads: Sequence[str] | None = None
    induction_head_strength: float = 1.0
    match_heads: Sequence[str] | None = None
    match_head_temperature: float = 0.0
    prev_token_heads: Sequence[str] | None = None
    prev_token_head_strength: float = 1.0
    prev_token_only_label: bool = False
    disallow_prev_token_heads: Sequence[str] | None = None
    disallow_prev_token_only_label: bool = False
    ablate_heads: Sequence[str] | None = None
    ablate_embedding: bool = False
    perfect_copy_from_head_pattern: str | None = None
    set_head_temperature: Sequence[str] | None = None
    final_layer_silence_non_label_attn: Sequence[int] | None = None
    preserve_patterns: bool = False
    preserve_values: bool = False
    preserve_queries: bool = False
    preserve_keys: bool = False
    graft_in_model_ckpt: str | None = None
    graft_in_model_cfg: str | None = None
    graft_in_model_till_layer: int | None = None
    graft_out_model_ckpt: str | None = None
    graft_out_model_cfg: str | None = None
    graft_out_model_from_layer: int | None = None


def edits_from_flags(
    flags: str | Sequence[str], *, folder: str | os.PathLike = "."
) -> list[AbstractEdit]:
    """The edits that command-line flags of icl-dynamics mean.

    ```python
    edits_from_flags("--opto_ablate_heads 1:3 --opto_preserve_patterns")
    ```

    **Arguments:**

    - `flags`: As on the command line, in one string or a list.
    - `folder`: The folder that paths of models to graft are relative to.

    **Returns:**

    Edits in the order in which they apply, for `opto.run`.

    **Raises:** `ValueError` for an unknown flag, and for combinations that icl-dynamics
    rejects. Flags that it ignores give a warning.
    """
    words = shlex.split(flags) if isinstance(flags, str) else [str(w) for w in flags]
    given = vars(_parser().parse_args(words))
    return _edits(_Flags(**given), Path(folder))


def edits_from_config(
    config: Mapping[str, Any], folder: str | os.PathLike = "."
) -> list[AbstractEdit]:
    """Like `edits_from_flags`, for the `opto_…` fields of a run's config."""
    names = {field.name for field in dataclasses.fields(_Flags)}
    fields = {k: v for k, v in config.items() if k.startswith("opto_")}
    own = {k.removeprefix("opto_"): v for k, v in fields.items()}
    if unknown := own.keys() - names:
        raise ValueError(f"config.json has an unknown field opto_{min(unknown)}")
    return _edits(_Flags(**own), Path(folder))


def texts_from_config(
    config: Mapping[str, Any], folder: str | os.PathLike = "."
) -> tuple[str, ...]:
    """The edits of `edits_from_config` as text."""
    return tuple(edit.text() for edit in edits_from_config(config, folder))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"flags: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    for field in dataclasses.fields(_Flags):
        options: dict[str, Any] = {"dest": field.name, "default": field.default}
        if field.default is False:
            options["action"] = "store_true"
        elif "Sequence" in str(field.type):
            options["nargs"] = "+"
            options["type"] = int if "int" in str(field.type) else str
        else:
            kinds = {"float": float, "int": int}
            word = str(getattr(field.type, "__name__", field.type)).split(" ")[0]
            options["type"] = kinds.get(word, str)
        parser.add_argument(f"--opto_{field.name}", **options)
    return parser


def _edits(flags: _Flags, folder: Path) -> list[AbstractEdit]:
    if flags.specific_fn not in (None, "standard", "perfect_prev_token_input"):
        known = "'standard' or 'perfect_prev_token_input'"
        raise ValueError(f"opto_specific_fn must be {known}, got {flags.specific_fn}")
    if flags.specific_fn == "perfect_prev_token_input":
        return _perfect(flags)
    _check_disjoint(flags)
    return [
        *_copied(flags, ()),
        *_preserved(flags),
        *_temperatures(flags),
        *_grafted_in(flags, folder),
        *_ablated(flags),
        *_patterns(flags),
        *_blocked(flags),
        *_grafted_out(flags, folder),
    ]


def _perfect(flags: _Flags) -> list[AbstractEdit]:
    """The clamp of layer 1; it supports only a few of the other flags."""
    used = {"specific_fn", "perfect_copy_from_head_pattern"}
    if flags.perfect_copy_from_head_pattern is None:
        used.add("ablate_heads")
    for field in dataclasses.fields(flags):
        if field.name not in used and getattr(flags, field.name) != field.default:
            message = f"icl-dynamics ignores opto_{field.name} with opto_specific_fn"
            warnings.warn(message, stacklevel=4)
    if flags.perfect_copy_from_head_pattern is not None:
        return _copied(flags, (PerfectPreviousToken(),))
    if any(int(head.split(":")[0]) != 1 for head in flags.ablate_heads or ()):
        raise ValueError("opto_ablate_heads: perfect_prev_token_input needs layer 1")
    return [PerfectPreviousToken(), *_zeroed(flags)]


def _copied(flags: _Flags, edits: Sequence[AbstractEdit]) -> list[AbstractEdit]:
    head = flags.perfect_copy_from_head_pattern
    if head is None:
        return []
    return [CopyFromPattern(heads=head, site="blocks.*.attn.scores", edits=edits)]


def _preserved(flags: _Flags) -> Iterator[AbstractEdit]:
    kept = {
        "pattern": flags.preserve_patterns,
        "v": flags.preserve_values,
        "q": flags.preserve_queries,
        "k": flags.preserve_keys,
    }
    for name, is_kept in kept.items():
        if is_kept:
            yield Freeze(f"blocks.*.attn.{name}")


def _temperatures(flags: _Flags) -> Iterator[AbstractEdit]:
    words = [word.split(":") for word in flags.set_head_temperature or ()]
    if any(len(word) != 3 for word in words):
        raise ValueError("opto_set_head_temperature must be layer:head:temperature")
    layers = sorted({int(layer) for layer, _, _ in words})
    if len(layers) > 1:
        raise ValueError("opto_set_head_temperature must have heads of a single layer")
    for layer in layers:
        yield Freeze(f"blocks.{layer}.attn.scores")
    # If a head has several, the last one counts, as in a dictionary.
    for (layer, head), kelvin in {(a, b): t for a, b, t in words}.items():
        factor = 1 / _temperature(kelvin)
        yield Scale(f"blocks.{layer}.attn.scores", factor, head=int(head))


def _temperature(word: str) -> float:
    with contextlib.suppress(ValueError):
        if float(word) > 0:
            return float(word)
    raise ValueError(f"opto_set_head_temperature must be above 0, got {word!r}")


def _ablated(flags: _Flags) -> list[AbstractEdit]:
    embedding = [Zero("tok_embed")] if flags.ablate_embedding else []
    return [*embedding, *_zeroed(flags)]


def _zeroed(flags: _Flags) -> list[AbstractEdit]:
    if not flags.ablate_heads:
        return []
    return [Zero("blocks.*.attn.v", heads=" ".join(flags.ablate_heads))]


def _patterns(flags: _Flags) -> Iterator[AbstractEdit]:
    site = "blocks.*.attn.pattern"
    weight = flags.prev_token_head_strength
    queries = "label" if flags.prev_token_only_label else "all"
    kinds = (
        (flags.prev_token_heads, PreviousToken(weight, queries=queries)),
        (flags.induction_heads, UnnormalisedInduction(flags.induction_head_strength)),
        (flags.match_heads, UnnormalisedMatch(flags.match_head_temperature)),
    )
    for heads, kind in kinds:
        if heads:
            yield Pattern(kind, site=site, heads=" ".join(heads))


def _blocked(flags: _Flags) -> Iterator[AbstractEdit]:
    site = "blocks.*.attn.scores"
    if flags.disallow_prev_token_heads:
        heads = " ".join(flags.disallow_prev_token_heads)
        queries = "label" if flags.disallow_prev_token_only_label else "all"
        yield Block(distance=1, queries=queries, site=site, heads=heads)
    if flags.final_layer_silence_non_label_attn:
        yield SilenceNonLabels(flags.final_layer_silence_non_label_attn)


def _grafted_in(flags: _Flags, folder: Path) -> Iterator[AbstractEdit]:
    if flags.graft_in_model_ckpt is None:
        return
    layer = flags.graft_in_model_till_layer
    if layer is None or flags.graft_in_model_cfg is None:
        raise ValueError("opto_graft_in_model_ckpt needs …_cfg and …_till_layer")
    path = folder / flags.graft_in_model_ckpt
    config = read_file(folder / flags.graft_in_model_cfg)
    edits = edits_from_config(config, folder)
    graft = Graft(str(path), until=layer, edits=edits)
    yield graft.loaded(load_model(config, path))


def _grafted_out(flags: _Flags, folder: Path) -> Iterator[AbstractEdit]:
    if flags.graft_out_model_ckpt is None:
        return
    layer = flags.graft_out_model_from_layer
    if layer is None or flags.graft_out_model_cfg is None:
        raise ValueError("opto_graft_out_model_ckpt needs …_cfg and …_from_layer")
    path = folder / flags.graft_out_model_ckpt
    config = read_file(folder / flags.graft_out_model_cfg)
    # Their number is the layer whose output is passed on; ours is the next layer, the
    # first one taken. Edits of the other model do not apply.
    yield Graft(str(path), from_=layer + 1).loaded(load_model(config, path))


def _check_disjoint(flags: _Flags) -> None:
    previous = set(flags.prev_token_heads or ())
    for name in ("induction_heads", "disallow_prev_token_heads"):
        if both := previous & set(getattr(flags, name) or ()):
            raise ValueError(
                f"opto_{name} and opto_prev_token_heads both name {min(both)}"
            )
