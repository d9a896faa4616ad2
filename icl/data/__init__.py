"""Classes of exemplars that tasks draw their sequences from.

A source is a frozen dataclass, so it can be part of a run's config. Its `load()` gives
the features as a NumPy array, `[class, exemplar, dim]`. `icl.tasks` decides how
sequences are drawn from them.
"""

from ._clusters import NeighbourClusters as NeighbourClusters
from ._conv import ConvEncoder as ConvEncoder
from ._embeddings import (
    make_clusters as make_clusters,
    read_embeddings as read_embeddings,
)
from ._hdf5 import (
    classes_in as classes_in,
    HDF5Classes as HDF5Classes,
    write_classes as write_classes,
)
from ._omniglot_file import make_omniglot as make_omniglot, pca_whiten as pca_whiten
from ._resnet import ResNetEncoder as ResNetEncoder
from ._source import (
    absolute as absolute,
    digest as digest,
    save_source as save_source,
    Source as Source,
)
from ._symmetry import SYMMETRIES as SYMMETRIES, Symmetry as Symmetry
from ._synthetic import (
    GaussianClasses as GaussianClasses,
    LowRankClasses as LowRankClasses,
    OneHotClasses as OneHotClasses,
    TransformedClasses as TransformedClasses,
)
from .omniglot import read_omniglot as read_omniglot
