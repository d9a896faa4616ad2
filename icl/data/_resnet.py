"""Features of drawings from a ResNet-18 that was trained on photographs."""

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from ..plugins import import_extra
from ._hdf5 import sha256
from ._symmetry import Symmetry


_SIDE = 224  # pixels of the images that the network was trained on
_DIM = 512
_BATCH_SIZE = 80  # 1 GB of activations
_MEAN = (0.485, 0.456, 0.406)  # of ImageNet's red, green and blue
_DEVIATION = (0.229, 0.224, 0.225)
_PUBLISHED = "ResNet18_Weights.IMAGENET1K_V1"

Features = Callable[
    [Float32[np.ndarray, "batch size size"]], Float32[np.ndarray, "batch dim"]
]


@dataclasses.dataclass(frozen=True)
class ResNetEncoder:
    """The 512 features before the classifier of a ResNet-18 (He et al., 2016).

    The features are the means over the image of the last block's rectified channels, so
    they are at least 0. The network gets a drawing in the same form as in Singh et al.
    (2023), "The transient nature of emergent in-context learning", and the two papers
    after it: ink 0 on paper 1, enlarged bilinearly to 224×224, the same in all three
    colours, with ImageNet's mean of each colour subtracted and divided by its standard
    deviation. (The papers rounded the enlarged image to 8 bits; here it is not
    rounded.)

    Needs torchvision: `make EXTRA=resnet`. It runs on the GPU if torch sees
    one. The same weights on the same machine give the same bits.
    """

    weights: str | None = None
    """A file with a state_dict of torchvision's `resnet18`, written as `.safetensors`
    or by `torch.save`; its classifier is not used. `None` lets torchvision download
    `ResNet18_Weights.IMAGENET1K_V1` (45 MB, kept in torch's cache)."""

    def load(self) -> Features:
        """Reads the weights.

        **Returns:**

        A function from drawings `[batch, size, size]` in [0, 1] with ink 1 to their
        features `[batch, 512]`.

        **Raises:**

        `ValueError` if torchvision is not installed, or if the weights cannot be
        downloaded or read, do not fit a ResNet-18, or are not finite.
        """
        torchvision = import_extra("torchvision", "resnet", "encoder: ResNet-18")
        torch = import_extra("torch", "resnet", "encoder: ResNet-18")
        if self.weights is None:
            state, where = _download(torchvision, torch), _PUBLISHED
        else:
            where = self.weights
            try:
                state = _read(torch, Path(where))
            except (ValueError, FileNotFoundError):
                raise
            except Exception as error:  # Of many kinds, with long advice.
                kind = type(error).__name__
                raise ValueError(f"weights: cannot read {where} ({kind})") from error
        network = torchvision.models.resnet18()
        network.fc = torch.nn.Identity()
        _fill(network, state, where)
        network.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        return lambda drawings: _features(torch, network, drawings)

    def attributes(self) -> dict[str, str]:
        """Which weights these are, and which software computes the features."""
        torch = import_extra("torch", "resnet", "encoder: ResNet-18")
        versions = {"encoder": "ResNet-18", "torch": str(torch.__version__)}
        if self.weights is None:
            return {**versions, "weights": _PUBLISHED}
        name = Path(self.weights).name
        return {**versions, "weights": name, "weights_sha256": sha256(self.weights)}


def encode_drawings(
    features: Features,
    images: Float32[np.ndarray, "character exemplar size size"],
    symmetries: Sequence[Symmetry],
) -> Float32[np.ndarray, "class exemplar dim"]:
    """The features of all drawings under all symmetries, a batch at a time.

    Class `k` is character `k // len(symmetries)` under symmetry `k % len(symmetries)`.
    Only one batch of turned and enlarged drawings is in memory at a time.
    """
    shape = len(images), len(symmetries), images.shape[1]
    encoded = np.empty((*shape, _DIM), np.float32)
    flat = encoded.reshape(-1, _DIM)
    with tqdm(total=len(flat), desc="ResNet-18", unit="drawing", disable=None) as bar:
        for start in range(0, len(flat), _BATCH_SIZE):
            places = np.arange(start, min(start + _BATCH_SIZE, len(flat)))
            chosen = zip(*np.unravel_index(places, shape), strict=True)
            batch = [symmetries[s](images[c, e]) for c, s, e in chosen]
            flat[places] = features(np.stack(batch))
            bar.update(len(places))
    return encoded.reshape(-1, *encoded.shape[2:])


def _features(
    torch: Any, network: Any, drawings: Float32[np.ndarray, "batch size size"]
) -> Float32[np.ndarray, "batch dim"]:
    device = next(network.parameters()).device
    mean, deviation = (
        torch.tensor(colours, device=device)[:, None, None]
        for colours in (_MEAN, _DEVIATION)
    )
    exact = torch.backends.cudnn.flags(deterministic=True, allow_tf32=False)
    with torch.inference_mode(), exact:
        paper = torch.from_numpy(1 - drawings).to(device)[:, None]
        large = torch.nn.functional.interpolate(
            paper, (_SIDE, _SIDE), mode="bilinear", align_corners=False
        )
        return network((large - mean) / deviation).cpu().numpy()


def _download(torchvision: Any, torch: Any) -> dict[str, Any]:
    """Torchvision's own weights, from torch's cache if it has them."""
    weights = torchvision.models.ResNet18_Weights.IMAGENET1K_V1
    try:
        # The file's name has the first digits of its SHA-256, and these are checked.
        return weights.get_state_dict(progress=True, check_hash=True)
    except Exception as error:  # from the network, the disk or a changed file
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        reason = " ".join(str(error).split())
        raise ValueError(
            f"weights: torchvision cannot get {_PUBLISHED}: {reason}; download "
            f"{weights.url} to {folder}, or give the file's name as weights"
        ) from error


def _read(torch: Any, file: Path) -> Any:
    """What a file of weights holds."""
    if file.suffix == ".safetensors":
        purpose = f"weights: {file}"
        return import_extra("safetensors.torch", "resnet", purpose).load_file(file)
    return torch.load(file, map_location="cpu", weights_only=True)


def _fill(network: Any, state: dict[str, Any], where: str) -> None:
    """Sets the network's weights.

    **Raises:** `ValueError` if they do not fit or are not finite.
    """
    try:
        given = {k: x for k, x in state.items() if not k.startswith("fc.")}
        network.load_state_dict(given)
    except Exception as error:  # Torch says what does not fit, in many lines.
        wanted = f"{where} must be a state_dict of torchvision's resnet18"
        reason = textwrap.shorten(str(error), 300)
        raise ValueError(f"weights: {wanted}: {reason}") from error
    wrong = [name for name, x in given.items() if not x.isfinite().all()]
    if wrong:
        raise ValueError(f"weights: {where} must be finite, but {wrong[0]} is not")
