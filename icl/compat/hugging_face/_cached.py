"""Models that `huggingface_hub` has downloaded before."""

import os
from pathlib import Path


def cached(name: str, revision: str = "main") -> Path:
    """The folder of a model in the local cache of `huggingface_hub`; nothing is loaded.

    ```python
    model = hugging_face.load(hugging_face.cached("EleutherAI/pythia-70m", "step512"))
    ```

    The cache is `$HF_HUB_CACHE`, `$HF_HOME/hub` or `~/.cache/huggingface/hub`.

    **Arguments:** `revision`: A branch, a tag, or the hash of a commit.

    **Raises:** `ValueError` if the model or its revision is not there.
    """
    home = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    model = cache / f"models--{name.replace('/', '--')}"
    if not model.is_dir():
        way = f"huggingface_hub.snapshot_download({name!r}) downloads it"
        raise ValueError(f"{name} is not in the cache {cache}; {way}")
    ref = model / "refs" / revision
    commit = ref.read_text().strip() if ref.is_file() else revision
    folder = model / "snapshots" / commit
    if not folder.is_dir():
        refs = sorted(x.name for x in (model / "refs").glob("*"))
        have = f"it has {', '.join(refs) or 'none'}"
        raise ValueError(f"{name} has no revision {revision!r} in {cache}; {have}")
    return folder
