"""The transience paper: Singh et al. 2023, "The transient nature of emergent
in-context learning in transformers" (NeurIPS; arXiv 2311.08360).

Its runs on fixed features, from https://github.com/aadityasingh/icl-dynamics: two on
features of Omniglot (appendix B), and 32 on clusters of LLaMA's token embeddings
(section 4.3), which are four models, clustered twice with each of two seeds.

`small` is two layers and two pairs in context, as `small` of the coopetition study:
twelve layers are out of a laptop's reach. Transience was seen there with 6400 classes;
whether it is with those of the clusters' shape was not tested.
"""

import dataclasses
from pathlib import Path

from icl import Experiment
from icl.data import LowRankClasses, Source
from icl.presets import data_shape, stand_in
from icl.presets.coopetition import coopetition
from icl.presets.transience import transience, transience_clusters
from icl.protocols import EvaluationConfig
from icl.training import Training
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import At, Every

from ...study import StudyScale, Trial


@dataclasses.dataclass(frozen=True)
class TransienceRun:
    """Which classes a run learns, and from which weights."""

    name: str
    classes: int
    exemplars: int
    init_seed: int
    dim: int = 512
    data_seed: int = 0
    """Of the clustering, or of what stands in for it."""
    clusters: bool = False

    @property
    def source(self) -> LowRankClasses:
        """Synthetic classes of this shape."""
        return stand_in(self.classes, self.exemplars, dim=self.dim, seed=self.data_seed)


# The script's second run is called seed 5, but has 2023, which it gives to all.
OMNIGLOT = (
    TransienceRun("omniglot-12800-seed-6", 12_800, 20, 6),
    TransienceRun("omniglot-1600-seed-5", 1600, 20, 5),
)
# Of LLaMA (1): the sizes as the script has them, and the length of an embedding. The
# "70B" one is that of 65 billion.
MODELS = {"7B": 4096, "13B": 5120, "30B": 6656, "70B": 8192}
SHAPES = ((1600, 10), (3200, 5))
CLUSTER_SEEDS = (4, 5)
INIT_SEEDS = (5, 6)


def clusters(
    models: dict[str, int] = MODELS, shapes: tuple[tuple[int, int], ...] = SHAPES
) -> list[TransienceRun]:
    """The runs on clusters of embeddings: 32."""
    return [
        TransienceRun(
            f"llama-{model}-{classes}x{exemplars}-clusters-{seed}-seed-{init_seed}",
            *(classes, exemplars, init_seed, dim, seed),
            clusters=True,
        )
        for model, dim in models.items()
        for classes, exemplars in shapes
        for seed in CLUSTER_SEEDS
        for init_seed in INIT_SEEDS
    ]


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`.

    Without data, all are on synthetic stand-ins. Data are one set of classes, those of
    Omniglot or one clustering: then the runs are those whose classes and exemplars they
    suffice for, once for each shape and initial seed, without a model's name.

    **Raises:** `ValueError` if they suffice for none.
    """
    runs = {"paper": _paper, "small": _small, "smoke": _smoke}[scale]()
    if data is not None:
        runs = _on(data, runs)
    build = {"paper": _published, "small": _two_layers, "smoke": _tiny}[scale]
    return [
        Trial(
            run.name,
            dataclasses.replace(
                build(run, data or run.source), init_seed=run.init_seed
            ),
        )
        for run in runs
    ]


def _paper() -> list[TransienceRun]:
    return [*OMNIGLOT, *clusters()]


def _small() -> list[TransienceRun]:
    omniglot = [
        TransienceRun(f"omniglot-6400-seed-{seed}", 6400, 20, seed)
        for seed in (5, 6, 7, 8, 9)
    ]
    return [*omniglot, *(run for run in clusters({"7B": 512}) if run.data_seed == 4)]


def _smoke() -> list[TransienceRun]:
    omniglot = TransienceRun("omniglot-64-seed-6", 64, 1, 6, dim=32)
    return [omniglot, *clusters({"7B": 32}, ((32, 2), (64, 1)))]


def _on(data: Source, runs: list[TransienceRun]) -> list[TransienceRun]:
    count, each = data_shape(data)
    found = {}
    for run in runs:
        if run.classes <= count and run.exemplars <= each:
            kind = "clusters" if run.clusters else "omniglot"
            name = f"{kind}-{run.classes}x{run.exemplars}-seed-{run.init_seed}"
            found.setdefault(name, dataclasses.replace(run, name=name))
    if not found:
        wanted = sorted({(run.classes, run.exemplars) for run in runs})
        shapes = ", ".join(f"{classes} of {own}" for classes, own in wanted)
        raise ValueError(
            f"the transience study needs classes and exemplars of each: {shapes}; got "
            f"{count} of {each}"
        )
    return list(found.values())


def _published(run: TransienceRun, data: Source) -> Experiment:
    preset = transience_clusters if run.clusters else transience
    return preset(data, classes=run.classes, exemplars=run.exemplars)


def _two_layers(run: TransienceRun, data: Source) -> Experiment:
    base = coopetition(data, classes=run.classes, exemplars=run.exemplars)
    return dataclasses.replace(
        base,
        optimizer=Adam(Constant(1e-4)),
        training=Training(
            3_200_000, evaluate_at=Every(64_000), checkpoint_at=Every(160_000)
        ),
        evaluations=_resized(base, 1000, *base.evaluations),
    )


def _tiny(run: TransienceRun, data: Source) -> Experiment:
    base = _published(run, data)
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, num_layers=2, d_model=16),
        optimizer=Adam(Constant(1e-3)),
        training=Training(3200, evaluate_at=Every(1600), checkpoint_at=At((3200,))),
        evaluations=_resized(base, 50, "flip", "ciwl"),
    )


def _resized(base: Experiment, size: int, *names: str) -> dict[str, EvaluationConfig]:
    sets = base.evaluations
    return {name: dataclasses.replace(sets[name], size=size) for name in names}
