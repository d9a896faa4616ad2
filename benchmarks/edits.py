"""The cost of edits and records; `python benchmarks/edits.py`.

First it ablates each head of a small and of a deep model: in one compiled call
(`opto.sweep`), in a loop over one compiled program (`opto.run`), and in a loop that
compiles each edit again, as closures over an edit do. Then it takes the time and memory
of recording everything, some sites, and a reduction of some sites. All variants run in
turns within one process, because other processes make timings noisy; look at the
ratios. Loops that compile are timed for a few heads and extrapolated.
"""

import functools
import importlib
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import opto
from icl.models import exemplar_label_interface, ExemplarLabelModel, TransformerConfig


ROUNDS = 5
Z = "blocks.*.attn.z"
PATTERN = "blocks.*.attn.pattern"


def setting(
    layers: int, pairs: int, batch: int
) -> tuple[ExemplarLabelModel, tuple[Any, ...]]:
    """A model of width 64 with 8 heads a layer, and inputs for it."""
    config = TransformerConfig(num_layers=layers)
    model = config.build(exemplar_label_interface(32, dim=64), key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(1))
    examples = jax.random.normal(keys[0], (batch, pairs + 1, 64))
    labels = jax.random.randint(keys[1], (batch, pairs + 1), 0, 32)
    return model, (examples, labels)


def metric(logits: jax.Array, examples: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean log probability of the query's label."""
    chosen = jax.nn.log_softmax(logits[:, -1])
    return jnp.mean(jnp.take_along_axis(chosen, labels[:, -1:], 1))


def timed(variants: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds for each variant: the median over rounds in turns, after a first call."""
    for call in variants.values():
        jax.block_until_ready(call())
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, call in variants.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def ablations(layers: int, pairs: int, batch: int) -> None:
    """Prints the times to ablate every head by itself."""
    model, inputs = setting(layers, pairs, batch)
    heads = [(layer, head) for layer in range(layers) for head in range(8)]

    def sweep(chunk):
        edits = opto.Zero(Z).each("layer", "head")
        return opto.sweep(metric, model, *inputs, edits=edits, chunk=chunk)

    def loop():
        # One pattern for all layers, so that edits differ only in their arrays.
        for layer, head in heads:
            edit = opto.Zero(Z, layer=layer, head=head)
            out, _ = opto.run(model, *inputs, edits=[edit])
            values.append(score(out, *inputs))
        return values[-len(heads) :]

    def recompile(layer, head):
        edit = opto.Zero(f"blocks.{layer}.attn.z", head=head)

        @jax.jit
        def closure(*inputs):
            out, _ = opto.run(model, *inputs, edits=[edit])
            return metric(out, *inputs)

        return closure(*inputs)

    values: list[jax.Array] = []
    score = jax.jit(metric)
    chunks = {"all at once": None, "8 at a time": 8, "1 at a time": 1}
    start = time.perf_counter()
    jax.block_until_ready(sweep(None))
    compiling = time.perf_counter() - start
    variants: dict[str, Callable[[], Any]] = {
        f"one call, {name}": functools.partial(sweep, chunk)
        for name, chunk in chunks.items()
    }
    seconds = timed({**variants, "loop, one program": loop})
    start = time.perf_counter()
    for layer, head in heads[:2]:
        jax.block_until_ready(recompile(layer, head))
    seconds["loop that compiles"] = (time.perf_counter() - start) / 2 * len(heads)
    edits = opto.Zero(Z).each("layer", "head")
    gradient = lambda: opto.strength_grad(metric, model, *inputs, edits=edits)
    seconds |= timed({"strength gradient": gradient})
    print(f"\n{layers} layers, {2 * pairs + 1} tokens, batch {batch}: ", end="")
    print(f"{len(heads)} heads; the first call takes {compiling:.1f} s\n")
    print("| | ms | of the loop that compiles |\n| --- | --: | --: |")
    slowest = seconds["loop that compiles"]
    for name, value in seconds.items():
        print(f"| {name} | {1e3 * value:.1f} | 1/{slowest / value:.0f} |")


def records(layers: int, pairs: int, batch: int) -> None:
    """Prints what a record costs on top of the output."""
    model, inputs = setting(layers, pairs, batch)
    requests: dict[str, Any] = {
        "nothing": (),
        "all patterns": PATTERN,
        "the query's patterns": {PATTERN: _last_query},
        "the query's mean pattern": {PATTERN: _mean_last_query},
        "everything": "**",
    }
    programs = {name: _program(model, inputs, r) for name, r in requests.items()}
    seconds = timed({n: functools.partial(p, *inputs) for n, p in programs.items()})
    print(f"\nRecords of {layers} layers, {2 * pairs + 1} tokens, batch {batch}\n")
    print("| recorded | ms | ratio | output MiB | temporary MiB |")
    print("| --- | --: | --: | --: | --: |")
    for name, program in programs.items():
        use = program.memory_analysis()
        sizes = use.output_size_in_bytes, use.temp_size_in_bytes
        memory = " | ".join(f"{size / 2**20:.1f}" for size in sizes)
        ratio = seconds[name] / seconds["nothing"]
        print(f"| {name} | {1e3 * seconds[name]:.1f} | {ratio:.2f} | {memory} |")


def _last_query(pattern: jax.Array) -> jax.Array:
    return pattern[:, -1]


def _mean_last_query(pattern: jax.Array) -> jax.Array:
    return pattern[:, -1].mean(0)


def _program(model: ExemplarLabelModel, inputs: tuple[Any, ...], record: Any) -> Any:
    run = lambda *xs: opto.run(model, *xs, record=record)
    return jax.jit(run).lower(*inputs).compile()


def unasked() -> None:
    """Prints the size of the compiled program with and without the library."""
    model, inputs = setting(2, 2, 32)
    bare = jax.jit(lambda *xs: jax.vmap(model)(*xs))
    asked = jax.jit(lambda *xs: opto.run(model, *xs)[0])
    dropped = jax.jit(lambda *xs: opto.run(model, *xs, record="**")[0])
    print("\nInstructions of the compiled program\n")
    for name, program in (
        ("the bare model", bare),
        ("opto.run, nothing recorded", asked),
        ("everything recorded and dropped", dropped),
    ):
        text = program.lower(*inputs).compile().as_text() or ""
        found = re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = ", text, re.MULTILINE)
        print(f"- {name}: {len(found)}")


def warm() -> None:
    """Prints how long a call takes that has been compiled, on one short sequence."""
    model, inputs = setting(2, 2, 1)
    arrays, rest = eqx.partition(model, eqx.is_array)
    bare = jax.jit(lambda arrays, *x: jax.vmap(eqx.combine(arrays, rest))(*x))
    zero = functools.partial(opto.Zero, "blocks.1.attn.z", head=3)
    edits, calls = [zero()], 200

    def repeat(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [call() for _ in range(calls)][-1]

    seconds = timed(
        {
            "the model's own call, jitted": repeat(lambda: bare(arrays, *inputs)),
            "the same, and its result is there": repeat(
                lambda: jax.block_until_ready(bare(arrays, *inputs))
            ),
            "no edit": repeat(lambda: opto.run(model, *inputs)[0]),
            "one edit": repeat(lambda: opto.run(model, *inputs, edits=edits)[0]),
            "a new edit in each call": repeat(
                lambda: opto.run(model, *inputs, edits=[zero()])[0]
            ),
        }
    )
    print("\nA warm `opto.run`, 2 layers, 5 tokens, batch 1\n")
    bare_call = next(iter(seconds.values()))
    for name, value in seconds.items():
        ratio = f"{value / bare_call:.1f} times"
        print(f"- {name}: {1e3 * value / calls:.2f} ms, {ratio}")


def opened() -> None:
    """Prints the times of a model that was opened, beside taps written by hand."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    foreign = importlib.import_module("foreign")
    models = foreign.twins(foreign.Encoder(jax.random.key(0), width=64, layers=4))
    ids = jax.random.randint(jax.random.key(1), (32, 64), 0, 6)
    heads = [opto.Zero(Z, layer=1, head=0)]
    asked: dict[str, dict[str, Any]] = {
        "nothing": {},
        "one head at zero": {"edits": heads},
        "everything recorded": {"record": "**.attn.*"},
    }
    print("\nAn Equinox encoder of 4 layers, 64 tokens, batch 32: ms, and the ratio of")
    print("`opto.tapped` to taps written by hand\n\n| | by hand | tapped | ratio |")
    print("| --- | --: | --: | --: |")
    for name, request in asked.items():
        kinds = zip(("tapped", "by hand"), models, strict=True)
        seconds = timed(
            {kind: functools.partial(opto.run, m, ids, **request) for kind, m in kinds}
        )
        by_hand, ours = 1e3 * seconds["by hand"], 1e3 * seconds["tapped"]
        print(f"| {name} | {by_hand:.1f} | {ours:.1f} | {ours / by_hand:.2f} |")


def main() -> None:
    """Prints all tables."""
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    unasked()
    warm()
    opened()
    for sizes in ((2, 2, 1), (2, 2, 32), (12, 8, 32)):
        ablations(*sizes)
    records(12, 32, 64)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"\npeak memory of the process: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
