"""How time and memory grow with the size of the work; `python benchmarks/growth.py`.

Each quantity is doubled three times, all others stay. For a training step of GPT-2 on
prompts of linear functions: tokens, width, layers, batch and members. For a replay of a
short run of the induction preset: checkpoints. Programs of one quantity take turns.

An exponent is the slope of a line through the logarithms: 1 grows in proportion, and 0
does not grow. Arithmetic and temporary memory are what the compiler says of a step.
"""

import argparse
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from operations import compiled_steps
from train_step import gpt2_on_functions

import icl
from icl import measures, plots
from icl.presets.induction import induction
from icl.training import Training
from icl.training.schedules import Every


FACTORS = (1, 2, 4, 8)
BASE = {"tokens": 22, "width": 32, "layers": 1, "batch": 16, "members": 1}
FEWEST = 64
"""Checkpoints."""


@dataclasses.dataclass
class Work:
    """A compiled program, and what it costs."""

    run: Callable[[], Any]
    arithmetic: float
    """Floating-point operations, or NaN."""
    memory: float
    """Bytes of temporary arrays, or NaN."""
    seconds: float = np.inf
    """CPU seconds, the least so far."""

    def measure(self) -> None:
        start = time.process_time()
        jax.block_until_ready(self.run())
        self.seconds = min(self.seconds, time.process_time() - start)


def step(sizes: dict[str, int], steps: int) -> Work:
    """Some training steps of these sizes."""
    shape = {"num_layers": sizes["layers"], "d_model": sizes["width"]}
    experiment = gpt2_on_functions(sizes["tokens"] // 2, 5, sizes["batch"], **shape)
    compiled, arguments = compiled_steps(experiment, sizes["members"])
    count = jnp.int32(steps)
    memory = compiled.memory_analysis().temp_size_in_bytes
    flops = compiled.cost_analysis()["flops"]
    return Work(lambda: compiled(*arguments, count), flops, memory)


def replays(folder: Path) -> dict[int, Work]:
    """Replays of more and more checkpoints of a short run."""
    experiment = induction()
    each = 32
    training = Training(
        each * (FEWEST * max(FACTORS)),
        32,
        checkpoint_at=Every(each),
        evaluate_at=Every(each),
    )
    experiment = dataclasses.replace(experiment, training=training)
    icl.run_experiment(experiment, folder)
    run = icl.load(folder)
    asked = {"loss": measures.task_metric(run.task, "loss")}

    def replayed(count: int) -> np.ndarray:
        # Otherwise it would read what the last call stored.
        shutil.rmtree(folder / "replays", ignore_errors=True)
        return icl.replay(run, asked, checkpoints=run.run.checkpoints[:count])["loss"]

    return {k: Work(lambda k=k: replayed(FEWEST * k), np.nan, np.nan) for k in FACTORS}


def exponent(values: list[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit(np.log(FACTORS), np.log(values), 1)[0])


def main() -> None:
    """Prints the exponents and draws the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    curves: dict[str, dict[str, plots.Line]] = {"CPU time": {}, "temporary memory": {}}
    print("| quantity | from | to | CPU time | arithmetic | memory |")
    print("| --- |" + 5 * " --: |")
    with tempfile.TemporaryDirectory() as folder:
        for name in (*BASE, "checkpoints"):
            first = BASE.get(name, FEWEST)
            if name == "checkpoints":
                works = replays(Path(folder) / "run")
            else:
                works = {
                    k: step({**BASE, name: first * k}, options.steps) for k in FACTORS
                }
            for work in works.values():
                jax.block_until_ready(work.run())
            for _ in range(options.rounds):
                for work in works.values():
                    work.measure()
            found = [
                [getattr(work, of) for work in works.values()]
                for of in ("seconds", "arithmetic", "memory")
            ]
            cells = ["–" if np.isnan(x[0]) else f"{exponent(x):.2f}" for x in found]
            last = first * FACTORS[-1]
            print(f"| {name} | {first} | {last} | {' | '.join(cells)} |", flush=True)
            for title, values in zip(curves, (found[0], found[2]), strict=True):
                if not np.isnan(values[0]):
                    line = plots.Line(np.log2(FACTORS), np.array(values) / values[0])
                    curves[title][name] = line
    drawn = plots.lines(curves, x="doublings", y="÷ the smallest", scale="log")
    drawn.savefig(options.out / "growth.png", dpi=150)


if __name__ == "__main__":
    main()
