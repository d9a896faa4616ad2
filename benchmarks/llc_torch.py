"""The local learning coefficient by devinterp 2.0.1, in PyTorch.

    pip install devinterp==2.0.1    # in an environment of its own, with torch
    python benchmarks/llc_torch.py numbers

prints the numbers that tests/test_llc.py compares with ours. `llc.py` runs this file
for the rate of draws. The model is `icl.models.regression_transformer`; its parameters
are in the same order. devinterp samples language models: its "tokens" are here the
number of a sequence, and its losses by token those of the queries.
"""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from devinterp.slt.llc import llc
from torch.nn import functional, LayerNorm, Linear, Module, ModuleList, utils


class Attention(Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        split = lambda layer: layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = map(split, (self.query, self.key, self.value))
        z = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.output(z.transpose(1, 2).flatten(2))


class MLP(Module):
    def __init__(self, width: int):
        super().__init__()
        self.expand, self.contract = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.contract(functional.gelu(self.expand(x), approximate="tanh"))


class Block(Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attn_norm, self.attn = LayerNorm(width), Attention(width, heads)
        self.mlp_norm, self.mlp = LayerNorm(width), MLP(width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.attn_norm(x), seen)
        return x + self.mlp(self.mlp_norm(x))


class Regression(Module):
    """Predicts the values of the last half of the points from the pairs before."""

    def __init__(self, dim: int, layers: int, width: int, heads: int):
        super().__init__()
        self.embedding = Linear(dim + 2, width)
        self.blocks = ModuleList(Block(width, heads) for _ in range(layers))
        self.final_norm, self.readout = LayerNorm(width), Linear(width, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pairs = x.shape[1] // 2
        is_pair = torch.arange(2 * pairs) < pairs
        marks = (~is_pair).float().expand(y.shape)
        stream = self.embedding(
            torch.cat([x, (y * is_pair)[..., None], marks[..., None]], -1)
        )
        seen = is_pair | torch.eye(2 * pairs, dtype=torch.bool)
        for block in self.blocks:
            stream = block(stream, seen)
        return self.readout(self.final_norm(stream[:, pairs:]))[..., 0]


def regression(weights: np.ndarray, dim: int, **shape: int) -> Regression:
    model = Regression(dim, **shape)
    wanted = sum(x.numel() for x in model.parameters())
    if len(weights) != wanted:
        raise ValueError(f"weights must be {wanted} numbers, got {len(weights)}")
    utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    return model


def estimate(
    model: Regression, x: np.ndarray, y: np.ndarray, observed: bool = False, **how: Any
) -> Any:
    """What devinterp's `llc` gives; without an observable, it has less to compute."""
    xs, ys = torch.tensor(x), torch.tensor(y)
    pairs = y.shape[1] // 2
    numbers = np.arange(len(x))[:, None].repeat(pairs + 1, 1)
    sequences = datasets.Dataset.from_dict({"input_ids": numbers}).with_format("torch")

    def losses(model: Regression, ids: torch.Tensor) -> torch.Tensor:
        which = ids[:, 0]
        return 0.5 * (model(xs[which], ys[which]) - ys[which, pairs:]) ** 2

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.zarr"
        observables = {"train": sequences} if observed else {}
        given = {"loss_fn": losses, "output_path": path, "device": "cpu", **how}
        return llc(model, sequences, observables, **given).load()


def rates(file: Path, batch_size: int) -> dict[str, Any]:
    """Draws a second with one thread or two, and as devinterp's README calls it."""
    given = np.load(file)
    model = regression(given["weights"], 5, layers=4, width=64, heads=4)
    how: dict[str, Any] = {"lr": 1e-7, "n_beta": 145.0, "num_chains": 1}
    how |= {"localization": 100.0, "batch_size": batch_size, "num_draws": 200}
    found: dict[str, Any] = {}
    for name, threads, observed in (
        ("one thread", 1, False),
        ("two threads", 2, False),
        ("README, one thread", 1, True),
        ("README, two threads", 2, True),
    ):
        torch.set_num_threads(threads)
        estimate(model, given["x"], given["y"], observed, **{**how, "num_draws": 5})
        start = time.perf_counter()
        estimate(model, given["x"], given["y"], observed, **how)
        found[name] = 200 / (time.perf_counter() - start)
    every = {**how, "batch_size": 1000, "num_draws": 1, "num_init_loss_batches": 1}
    found["loss"] = float(estimate(model, given["x"], given["y"], **every).init_loss)
    return found


def small() -> tuple[Regression, np.ndarray, np.ndarray]:
    """A small model, and sequences whose targets are its predictions and noise."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    model = regression(draw(905), 2, layers=1, width=8, heads=2)
    x, y, noise = draw(256, 8, 2), draw(256, 8), draw(256, 4)
    with torch.no_grad():
        y[:, 4:] = model(torch.tensor(x), torch.tensor(y)).numpy() + 0.3 * noise
    return model, x, y


def numbers() -> None:
    """Prints losses of steps without noise, and estimates with standard errors."""
    torch.set_num_threads(1)
    model, x, y = small()
    for method in "sgmcmc_sgld", "rmsprop_sgld":
        how: dict[str, Any] = {"sampling_method": method, "num_init_loss_batches": 4}
        # With such a small step, noise does not count.
        still = {"lr": 1e-14, "n_beta": 2e12, "localization": 4e12, "batch_size": 256}
        found = estimate(model, x, y, num_chains=1, num_draws=9, **still, **how)
        print(method, "losses:", found.loss_trace.values[0].tolist(), flush=True)
        moving: dict[str, Any] = {"lr": 5e-4 if method == "sgmcmc_sgld" else 2e-4}
        moving |= {"n_beta": 256 / np.log(256), "localization": 100.0, "batch_size": 64}
        moving |= {"num_chains": 32, "num_draws": 600, **how}
        # Otherwise all chains see the same batches.
        moving |= {"match_sampling_input_ids_across_chains": False}
        found = estimate(model, x, y, **moving)
        chains = found.llc_per_chain.values
        error = chains.std(ddof=1) / len(chains) ** 0.5
        print(method, "mean, error:", chains.mean(), error, flush=True)
        parts = found.loss_trace.values.reshape(32, 6, 100).mean((0, 2))
        print("  loss by hundreds of draws:", parts.round(4).tolist(), flush=True)
        print("  initial loss:", float(found.init_loss), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["numbers", "rates"])
    parser.add_argument("--file", type=Path)
    parser.add_argument("--batch-size", type=int)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "numbers":
        numbers()
    else:
        print(json.dumps(rates(options.file, options.batch_size)))


if __name__ == "__main__":
    main()
