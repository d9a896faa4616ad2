"""A training step of the same model in PyTorch; `python benchmarks/torch_step.py`.

It needs torch and transformers, which nothing else here needs:

    uv run --no-project --with torch --with transformers benchmarks/torch_step.py

The public code of Garg et al. (2022) uses the GPT-2 of transformers on vectors, with
Adam, and draws each batch anew. So does this: softmax attention, 3 layers,
d_model 64, 2 heads, batches of 64. Compare it with `attention.py step` on the same
machine. Times are the smallest of some rounds, of two threads.
"""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import argparse
import time

import torch
from transformers import GPT2Config, GPT2Model


class Regression(torch.nn.Module):
    """Reads points and values, and predicts the value at each point."""

    def __init__(self, dim: int, tokens: int):
        super().__init__()
        shape = GPT2Config(
            n_positions=tokens,
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


def measure(dim: int, points: int, steps: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a step with its data, and those of all threads together."""
    model = Regression(dim, 2 * points)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    wall = cpu = float("inf")
    for _ in range(rounds):
        start, start_cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            xs = torch.randn(64, points, dim)
            ys = (xs @ torch.randn(64, dim, 1))[..., 0]
            optimizer.zero_grad()
            (model(xs, ys) - ys).square().mean().backward()
            optimizer.step()
        wall = min(wall, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - start_cpu)
    return 1e3 * wall / steps, 1e3 * cpu / steps


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a step in PyTorch.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    print(f"torch {torch.__version__}")
    print("| step | ms | CPU ms |\n|---|---|---|")
    for dim, points in ((5, 11), (20, 41)):
        wall, cpu = measure(dim, points, arguments.steps, arguments.rounds)
        print(f"| softmax, {2 * points} tokens | {wall:.1f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
