"""The config of an icl-dynamics run: the fields we read, with that code's defaults."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...config import from_json


Numbers = tuple[float, ...] | None
Names = tuple[str, ...] | str | None


@dataclasses.dataclass(frozen=True)
class Options:
    """Fields under that code's names; an older config may lack any of them.

    A `pt_` field has one entry for each kind of training sequence, a `pe_` field one
    for each evaluation set. A burstiness is how often the query's class is in the
    context.
    """

    depth: int = 2
    d_model: int = 64
    num_heads: int = 8
    mlp_ratio: float | None = None
    no_norm: bool = False
    not_causal: bool = False
    pos_embedding_type: str = "rope"
    sin_time: float = 10000.0
    init_rescale: float = 1.0
    model_output_classes: int | None = None

    init_seed: int = 5
    train_seed: int = 0
    eval_seed: int = 1
    train_iters: int = 100_000
    train_bs: int = 32
    train_microbs: int | None = None
    lr: float = 1e-5
    optimizer: str = "adam"
    weight_decay: float = 0.0
    load_from_ckpt: str | None = None
    load_from_ckpt_cfg: str | None = None
    ckpt_every: int | None = None
    ckpt_sched: tuple[int, ...] | None = None

    train_context_len: int = 8
    mixing_coeffs: tuple[float, ...] = ()
    pt_burstiness: tuple[int, ...] = ()
    pt_distract: Numbers = None
    pt_no_support: Numbers = None
    pt_unique_rest: Numbers = None
    fs_relabel: int = 0
    fs_relabel_split: Numbers = None
    fs_relabel_split_seed: int = 20
    noise_scale_train: float = 0.0
    zipf_alpha: float = 0.0
    match_query_and_distractors: bool = False
    assign_query_label_random: bool | int = False

    eval_iters: int = 1000
    eval_every: int | None = None
    eval_sched: tuple[int, ...] | None = None
    save_eval_data: str | None = None
    load_eval_data: Names = None
    pe_names: tuple[str, ...] = ()
    pe_classes: Names = ()
    pe_exemplars: Names = ()
    pe_burstiness: tuple[int, ...] = ()
    pe_noise_scale: Numbers = None
    pe_distract: Numbers = None
    pe_no_support: Numbers = None
    pe_unique_rest: Numbers = None
    pe_fs_relabel_scheme: Names = None
    pe_context_len: tuple[int, ...] | None = None
    pe_assign_query_label_random: Numbers = None

    data_type: str = "file"
    data_file: str = "omniglot_features.h5"
    data_path_in_file: str = "resnet18/224/feat"
    class_split: tuple[int, ...] = (1600, 23, 0)
    exemplar_split: tuple[int, ...] = (5, 0, 0)

    def entry(self, field: str, index: int, default: Any) -> Any:
        """One entry of a list; `None` means the default, a string means all entries.

        **Raises:** `ValueError` if the list is too short.
        """
        values = getattr(self, field)
        if values is None:
            return default
        if isinstance(values, str):
            return values
        if index >= len(values):
            got = f"{len(values)}, {list(values)}"
            raise ValueError(
                f"{field} must have at least {index + 1} entries, got {got}"
            )
        return values[index]


def read_options(config: Mapping[str, Any]) -> Options:
    """The known fields of a config; others (folders, logging) are ignored.

    **Raises:** `ValueError`, naming the field, for a value of the wrong type.
    """
    known = {field.name for field in dataclasses.fields(Options)}
    try:
        return from_json(Options, {k: v for k, v in config.items() if k in known})
    except ValueError as error:
        reason = str(error).removeprefix("config: ")
        raise ValueError(f"icl-dynamics config: {reason}") from None
