"""Speed of training at the reference setting; `python benchmarks/train_step.py`.

Two layers, d_model 64, 8 heads, attention only, RoPE; two context pairs, batches of 32,
512-dim exemplars of 50 classes, 5 labels, Adam: the induction-head paper's main run.
10^4 steps through `icl.fit` into a run folder, with evaluations, checkpoints and the
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


STEPS = 10_000


def measure(members: int, devices: int, steps: int) -> dict[str, Any]:
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    from icl.presets.induction import induction
    from icl.runs import open_run
    from icl.training import fit, Training
    from icl.training.schedules import Every

    experiment = induction()
    base = experiment.build()
    chosen = [dataclasses.replace(base, train_seed=seed) for seed in range(members)]

    def train(steps: int) -> tuple[float, float]:
        """Wall and CPU seconds of a whole `fit`, which compiles its own programs."""
        training = Training(
            num_sequences=32 * steps,
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
        "members": members,
        "devices": len(jax.local_devices()),
        "platform": jax.default_backend(),
        "steps_per_second": steps * members / (wall - setup_wall),
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
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--row", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row is not None:
        members, devices = options.row
        print(json.dumps(measure(members, devices, options.steps)))
        return
    # Do not use JAX's devices in this process: it would take a GPU's memory.
    version = f"jax {metadata.version('jax')}, Python {platform.python_version()}"
    print(f"{platform.processor() or platform.machine()}, {version}")
    print(
        "| members | devices | member-steps/s | with compilation | CPU ms/step "
        "| matmul CPU ms | ratio | compile s | peak MiB |\n|" + " --: |" * 9
    )
    pairs = itertools.product(options.members, sorted({1, cores()}))
    for members, devices in pairs:
        command = [sys.executable, __file__, "--steps", str(options.steps)]
        done = subprocess.run(
            [*command, "--row", str(members), str(devices)],
            check=True,
            capture_output=True,
            text=True,
        )
        row = json.loads(done.stdout.splitlines()[-1])
        if row["platform"] != "cpu" and devices > 1:
            continue  # There, the number of GPUs does not depend on us.
        print(
            "| {members} | {devices} | {steps_per_second:.0f} "
            "| {with_compilation:.0f} | {cpu_ms:.2f} | {matmul_cpu_ms:.1f} "
            "| {ratio:.3f} | {compile_s:.1f} | {peak_MiB:.0f} |".format(**row),
            flush=True,
        )


if __name__ == "__main__":
    main()
