"""Speed of training at the reference settings; `python benchmarks/train_step.py`.

- `induction`: two layers, d_model 64, 8 heads, attention only, RoPE; two context pairs,
  batches of 32, 512-dim exemplars of 50 classes, 5 labels, Adam: the induction-head
  paper's main run.
- `encoder-64` and `encoder-128`: the bidirectional encoder with MLPs and batches of 64,
  for 16 points of 4 components and d_model 64, and for 32 points of 16 components and
  d_model 128: the published size of the likelihood-ratio paper.
- `lsa` and `softmax-copy`: one layer of linear self-attention, and the two-layer model
  of interleaved tokens; batches of 2048 new tasks with 10 pairs of 10 components, as in
  the public code of von Oswald et al. (2023), which takes 10.3 ms for `lsa`, a ratio of
  .65, on two idle cores.
- `functions-22` and `functions-82`: GPT-2 of three layers of 64 on prompts of linear
  functions: 11 points of 5 components, and 41 of 20; batches of 64.

The steps go through `icl.fit` into a run folder, with evaluations, checkpoints and the
log, for 1, 8 and 32 members, on one host device and on one for each core.

Each row is a separate process. Times are those of the whole `fit` minus those of a
`fit` of one step, which is mostly compilation and has its own column. The CPU time of a
step is compared with that of a 1024^3 float32 matrix product, measured in the same
process before and after.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from icl.devices import cores


STEPS = {
    "induction": 10_000,
    "encoder-64": 1000,
    "encoder-128": 200,
    "lsa": 1000,
    "softmax-copy": 100,
    "functions-22": 200,
    "functions-82": 50,
}
"""The settings, and how many steps are timed."""


def setting(name: str) -> Any:
    """The experiment of a setting."""
    if name == "induction":
        from icl.presets.induction import induction

        return induction()
    if name in ("lsa", "softmax-copy"):
        from icl.presets import gradient_descent

        experiment = getattr(gradient_descent, name.replace("-", "_"))()
        training = dataclasses.replace(experiment.training, batch_size=2048)
        return dataclasses.replace(experiment, training=training, evaluations={})
    if name.startswith("functions"):
        points = {"functions-22": 11, "functions-82": 41}[name]
        return gpt2_on_functions(points, dim=(points - 1) // 2)
    # Older commits, with which `against.py` compares, lack this preset.
    from icl.presets.likelihood_ratio import shifted_mean, shifted_mean_published

    if name == "encoder-128":
        return shifted_mean_published()
    experiment = shifted_mean()
    task = dataclasses.replace(experiment.task, context=16)
    return dataclasses.replace(experiment, task=task, evaluations={})


def gpt2_on_functions(points: int, dim: int, batch_size: int = 64, **shape: int) -> Any:
    """GPT-2 on prompts of linear functions; `shape` has fields of its config."""
    from icl.experiments import Experiment
    from icl.models.gpt2 import SIZES
    from icl.tasks.functions import InContextFunction
    from icl.training import Training

    model = dataclasses.replace(SIZES["tiny"], max_length=2 * points, **shape)
    return Experiment(
        task=InContextFunction(dim=dim, points=points),
        model=model,
        training=Training(batch_size, batch_size),
        evaluations={},
    )


def measure(name: str, members: int, devices: int, steps: int) -> dict[str, Any]:
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    from icl.runs import open_run
    from icl.training import fit, Training
    from icl.training.schedules import Every

    experiment = setting(name)
    batch = experiment.training.batch_size
    base = experiment.build()
    chosen = [dataclasses.replace(base, train_seed=seed) for seed in range(members)]

    def train(steps: int) -> tuple[float, float]:
        """Wall and CPU seconds of a whole `fit`, which compiles its own programs."""
        training = Training(
            num_sequences=batch * steps,
            batch_size=batch,
            evaluate_at=Every(20_000),
            checkpoint_at=Every(20_000),
        )
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            runs = [
                stack.enter_context(
                    open_run(Path(folder) / str(k), experiment, resume=True)
                )
                for k in range(members)
            ]
            wall, cpu = time.perf_counter(), time.process_time()
            fit(chosen, training, runs=runs)
            return time.perf_counter() - wall, time.process_time() - cpu

    before = matmul_cpu_seconds()
    train(1)  # Compiles what is compiled once for each process.
    setup_wall, setup_cpu = train(1)
    wall, cpu = train(steps)
    matmul = 0.5 * (before + matmul_cpu_seconds())
    step_cpu = (cpu - setup_cpu) / (steps * members)
    return {
        "name": name,
        "members": members,
        "devices": len(jax.local_devices()),
        "platform": jax.default_backend(),
        "steps_per_second": steps * members / (wall - setup_wall),
        "ms": 1e3 * (wall - setup_wall) / (steps * members),
        "with_compilation": steps * members / wall,
        "cpu_ms": 1e3 * step_cpu,
        "matmul_cpu_ms": 1e3 * matmul,
        "ratio": step_cpu / matmul,
        "compile_s": setup_wall,
        "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def matmul_cpu_seconds(repeats: int = 30) -> float:
    import jax
    import jax.numpy as jnp

    x = jnp.ones((1024, 1024))
    product = jax.jit(lambda a: a @ a)
    product(x).block_until_ready()
    start = time.process_time()
    for _ in range(repeats):
        product(x).block_until_ready()
    return (time.process_time() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of training.")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--settings", nargs="+", default=[*STEPS], choices=STEPS)
    parser.add_argument("--steps", type=int, help="instead of each setting's own")
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row is not None:
        name, members, devices = options.row
        steps = options.steps or STEPS[name]
        print(json.dumps(measure(name, int(members), int(devices), steps)))
        return
    # Do not use JAX's devices in this process: it would take a GPU's memory.
    version = f"jax {metadata.version('jax')}, Python {platform.python_version()}"
    print(f"{platform.processor() or platform.machine()}, {version}")
    print(
        "| setting, members, devices | member-steps/s | ms/step | with compilation "
        "| CPU ms/step | matmul CPU ms | ratio | compile s | peak MiB |"
    )
    print("| --- |" + 8 * " --: |")
    for name, members in itertools.product(options.settings, options.members):
        for devices in sorted({1, cores()}):
            row = measured(name, members, devices, options.steps)
            print(
                "| {name}, {members}, {devices} | {steps_per_second:.0f} | {ms:.2f} "
                "| {with_compilation:.0f} | {cpu_ms:.2f} | {matmul_cpu_ms:.1f} "
                "| {ratio:.3f} | {compile_s:.1f} | {peak_MiB:.0f} |".format(**row),
                flush=True,
            )
            if row["platform"] != "cpu":
                break  # There, the number of devices does not depend on us.


def measured(name: str, members: int, devices: int, steps: int | None) -> dict:
    """A row, from a process of its own."""
    command = [sys.executable, __file__, "--row", name, str(members), str(devices)]
    done = subprocess.run(
        [*command, *(["--steps", str(steps)] if steps else [])],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
