"""A batch that lies on several devices stays there."""

import json
import subprocess
import sys
from pathlib import Path


SHARDED = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from icl.devices import divide_cpu
divide_cpu(4)
import foreign, jax, jax.numpy as jnp, numpy as np, opto
from jax.sharding import AxisType, NamedSharding, PartitionSpec
mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,))
axes = NamedSharding(mesh, PartitionSpec("batch"))
whole = jax.random.randint(jax.random.key(1), (8, 5), 0, 6)
Z, score = "blocks.*.attn.z", lambda logits, ids: logits.mean((-2, -1))
end = opto.PerExample(np.arange(8) % 5)

def found(model, ids):
    ends = [ids], [jnp.roll(ids, 1, 1)]
    at, each = opto.At("blocks.*.resid_post"), opto.Zero(Z).each("layer", "head")
    outputs, record = opto.run(model, ids, record=Z, edits=[opto.Zero(Z, pos=end)])
    total = lambda *given: score(*given).mean()
    return dict(
        run=outputs,
        record=record.pick(Z),
        sweep=opto.sweep(score, model, ids, edits=each),
        pieces=opto.sweep(score, model, ids, edits=each, chunk=1),
        patch=opto.patching.activation_patch(score, model, *ends, at=at.each("layer")),
        slopes=opto.attribution.attribution_patch(total, model, *ends, sites=Z).pick(Z),
        resampled=opto.Resample(Z, record).values.arrays["blocks.0.attn.z"],
    )

for model in foreign.twins(foreign.models()["encoder"][0]):
    ours, alone = found(model, jax.device_put(whole, axes)), found(model, whole)
    for name, x in ours.items():
        near = bool(np.allclose(x, alone[name], atol=1e-5))
        parts = [s.data.size * 4 == x.size for s in x.addressable_shards]
        print(json.dumps([name, near, len(parts), all(parts)]))
"""


def test_a_sharded_batch_stays_sharded():
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 14
    assert [rest for _, *rest in found] == [[True, 4, True]] * 14, found
