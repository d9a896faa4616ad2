"""A training step of the same models in PyTorch; `python benchmarks/torch_step.py`.

It needs torch and transformers, which nothing else here needs:

    uv run --no-project --with torch --with transformers benchmarks/torch_step.py

Each model is what its paper's authors would write in torch, trained with Adam on
batches that are drawn anew:

- `functions-22` and `functions-82`: the GPT-2 of transformers on vectors, as in the
  public code of Garg et al. (2022); 3 layers of 64, 2 heads, batches of 64.
- `encoder-64` and `encoder-128`: `torch.nn.TransformerEncoder`, two post-norm layers, 4
  heads, batches of 64, as in the public code of the likelihood-ratio paper.
- `softmax-copy`: a layer of softmax attention and one without softmax on interleaved
  tokens, batches of 2048.

Compare its CPU time with the last line of `operations.py` on the same machine. Times
are the smallest of some rounds, of two threads.
"""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import argparse
import time

import torch
from transformers import GPT2Config, GPT2Model


class Regression(torch.nn.Module):
    """Reads points and values, and predicts the value at each point."""

    def __init__(self, dim: int, points: int):
        super().__init__()
        self.dim, self.points = dim, points
        shape = GPT2Config(
            n_positions=2 * points,
            n_embd=64,
            n_layer=3,
            n_head=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
        )
        self.read_in = torch.nn.Linear(dim, 64)
        self.body = GPT2Model(shape)
        self.read_out = torch.nn.Linear(64, 1)

    def forward(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """From `[batch, point, dim]` and `[batch, point]` to `[batch, point]`."""
        values = torch.zeros_like(xs)
        values[..., 0] = ys
        tokens = torch.stack([xs, values], 2).flatten(1, 2)
        stream = self.body(inputs_embeds=self.read_in(tokens)).last_hidden_state
        return self.read_out(stream)[:, ::2, 0]

    def loss(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """The mean squared error of all values."""
        return (self(xs, ys) - ys).square().mean()

    def draw(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Points and the values of a linear function of each prompt."""
        xs = torch.randn(size, self.points, self.dim)
        return xs, (xs @ torch.randn(size, self.dim, 1))[..., 0]


class Encoder(torch.nn.Module):
    """Labelled points and a query; the logit of the query's label."""

    def __init__(self, dim: int, points: int, width: int):
        super().__init__()
        self.dim, self.points = dim, points
        self.read_in = torch.nn.Linear(dim, width)
        self.label = torch.nn.Embedding(3, width)
        self.position = torch.nn.Embedding(points + 1, width)
        layer = torch.nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        self.body = torch.nn.TransformerEncoder(layer, 2)
        self.read_out = torch.nn.Linear(width, 1)

    def forward(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """From `[batch, point, dim]` and labels `[batch, point]` to `[batch]`."""
        labels = torch.cat([ys[:, :-1].long(), torch.full_like(ys[:, :1], 2).long()], 1)
        tokens = self.read_in(xs) + self.label(labels) + self.position.weight
        return self.read_out(self.body(tokens)[:, -1])[:, 0]

    def draw(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Points around plus or minus one mean, by their label."""
        ys = torch.randint(0, 2, (size, self.points + 1)).float()
        means = torch.randn(size, 1, self.dim)
        xs = torch.randn(size, self.points + 1, self.dim) + 3 * torch.randn(size, 1, 1)
        return xs + (2 * ys - 1)[..., None] * means, ys

    def loss(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """The logistic loss of the query's label."""
        logits = self(xs, ys)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, ys[:, -1])


class SoftmaxCopy(torch.nn.Module):
    """Two layers of attention with one head on 10 pairs of 10 components."""

    def __init__(self) -> None:
        super().__init__()
        width = 10 + 1 + 10
        new = lambda: torch.nn.Linear(width, width, bias=False)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleList(new() for _ in range(4)) for _ in range(2)
        )
        self.register_buffer("position", torch.randn(21, 10))

    def forward(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """From `[batch, 11, 10]` and `[batch, 11]` to `[batch]`."""
        size = len(xs)
        points = torch.nn.functional.pad(xs, (0, 1))
        values = torch.nn.functional.pad(ys[..., None], (10, 0))
        pairs = torch.stack([points, values], 2).flatten(1, 2)[:, :21]
        stream = torch.cat([pairs, self.position.expand(size, -1, -1)], -1)
        for i, (query, key, value, out) in enumerate(self.layers):
            keys = stream[:, :20]  # The query is not attended to.
            scores = query(stream) @ key(keys).mT
            if i == 0:
                scores = (scores / 21**0.5).softmax(-1)
            stream = stream + out(scores @ value(keys))
        return -stream[:, -1, 10]

    def draw(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Points in a cube, and the values of a linear function of each task."""
        xs = 2 * torch.rand(size, 11, 10) - 1
        return xs, (xs @ torch.randn(size, 10, 1))[..., 0]

    def loss(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """Half the mean squared error of the query's value."""
        return (self(xs, ys) - ys[:, -1]).square().mean() / 2


# By the names of `train_step.py`: the model, and its batch.
SETTINGS = {
    "functions-22": (lambda: Regression(5, 11), 64),
    "functions-82": (lambda: Regression(20, 41), 64),
    "encoder-64": (lambda: Encoder(4, 16, 64), 64),
    "encoder-128": (lambda: Encoder(16, 32, 128), 64),
    "softmax-copy": (SoftmaxCopy, 2048),
}


def measure(name: str, steps: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a step with its data, and those of all threads together."""
    build, size = SETTINGS[name]
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    wall = cpu = float("inf")
    for _ in range(rounds):
        start, start_cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            batch = model.draw(size)
            optimizer.zero_grad()
            model.loss(*batch).backward()
            optimizer.step()
        wall = min(wall, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - start_cpu)
    return 1e3 * wall / steps, 1e3 * cpu / steps


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a step in PyTorch.")
    parser.add_argument("--settings", nargs="+", default=[*SETTINGS], choices=SETTINGS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    print(f"torch {torch.__version__}")
    print("| setting | ms | CPU ms |\n| --- | --: | --: |")
    for name in arguments.settings:
        wall, cpu = measure(name, arguments.steps, arguments.rounds)
        print(f"| {name} | {wall:.1f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
