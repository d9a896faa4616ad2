"""The README's own edit and own study run as they stand there."""

import inspect
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import opto
from icl import edits
from sweeps.plan import needs
from sweeps.study import list_trials, load_study


README = Path(__file__).resolve().parents[1] / "README.md"


def test_an_edit_of_ones_own():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if "opto.register" in block]
    names = {}
    exec(compile(block, str(README), "exec"), names)
    edit = names["edit"]
    assert repr(edit) == "Clip('blocks.*.attn.scores', bound=2.0, heads='1:3')"
    x = jnp.array([-3.0, 1.0, 2.5])
    clip = names["Clip"]("x", 2.0)
    model = lambda x, tap: tap("x", x, "unit")
    np.testing.assert_array_equal(opto.run(model, x, edits=[clip])[0], [-2, 1, 2])
    each = clip.each("unit")
    swept = opto.sweep(lambda out, _: out, model, x, edits=each)
    np.testing.assert_array_equal(swept, [[-2, 1, 2.5], [-3, 1, 2.5], [-3, 1, 2]])


def test_a_study_of_ones_own(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if "def trials" in block]
    (tmp_path / "seeds.py").write_text(block)
    name, study = load_study(str(tmp_path / "seeds.py"))
    found = {t.name: t.experiment for t in list_trials(study, "small", tmp_path, None)}
    assert name == "seeds"
    assert needs(found, tmp_path)["silenced"] == ("seed-0",)


def test_the_readmes_edits_are_all_there_are():
    table = README.read_text().split("## Edits")[1].split("\n\n")[1]
    named = set(re.findall(r"`([A-Z]\w+)`", table))
    kinds = {
        name
        for module in (opto, edits)
        for name, kind in inspect.getmembers(module)
        if isinstance(kind, type) and issubclass(kind, opto.AbstractEdit)
    }
    assert named == kinds - {"AbstractEdit", "Edit", "Derived"}
