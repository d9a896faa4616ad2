"""Texts of edits: reading them back, the user's own edits and kinds, mistakes."""

import hashlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import Tokens

import opto
from icl import edits
from icl.edits import CopyFromPattern, Induction, Match, PerfectPreviousToken
from icl.roles import LABEL
from opto import (
    At,
    Clamp,
    Freeze,
    Graft,
    Mean,
    parse,
    Patch,
    PerExample,
    Project,
    Resample,
    Scale,
    Steer,
    Zero,
)
from opto.attention import Block, Pattern, PreviousToken, Uniform
from opto.patching import PathPatch


@opto.toolkit.register
class Shift(opto.toolkit.Edit):
    """A user's own edit: moves entries along an axis."""

    steps: int = eqx.field(static=True)

    def __init__(self, site, steps=1, **where):
        super().__init__(site, **where)
        self.steps = steps

    def replacement(self, value, site):
        return jnp.roll(value, self.steps, -1)


@opto.toolkit.register
class Last(opto.attention.Kind):
    """A user's own kind: labels attend to the token this many places before."""

    weight: jax.Array
    places: int = eqx.field(static=True)

    def __init__(self, weight=1.0, *, places=2):
        self.weight, self.places = jnp.asarray(weight, float), places

    def needs(self):
        return ("tokens.role",)

    def pattern(self, size, given):
        pattern = self.weight * jnp.eye(size, k=-self.places)
        return pattern, given.base["tokens.role"] == LABEL

    def arguments(self):
        return {"weight": self.weight, "places": self.places}


RECORD = {
    "a.x": np.array([[0.1, -np.inf], [np.inf, 3e38]], np.float32),
    "a.y": np.arange(-2, 2).reshape(2, 2),
}
MASK = np.array([[True, False, True], [False, False, True]])

EDITS = {
    "clamp": lambda: Clamp(
        "a.x", [[1, -2], [3, 4]], axes="b a", heads="0:1 1:0", pos=-1
    ),
    "clamp_half": lambda: Clamp(
        "a.x", jnp.array([0.1, 6e-8, 65504], jnp.float16), axes="a"
    ),
    "clamp_int8": lambda: Clamp("a.x", jnp.array([-128, 127], jnp.int8), layer=[0, -1]),
    "clamp_flags": lambda: Clamp("a.x", [[True], [False]], strength=0),
    "zero": lambda: Zero("**.x", mask=MASK, strength=-1.5),
    "zero_mask_and_axis": lambda: Zero("**.x", mask=MASK[None], head=[2, 0]),
    "scale": lambda: Scale("a.x", np.float32(1 / 3), strength=np.float32(1 / 3)),
    "scale_by_axis": lambda: Scale("a.x", [0.5, 2, 1e-30], axes="head", unit=[0, -1]),
    "steer": lambda: Steer("a.x", [[1e-40, -0.0, 3e38]], mask=MASK),
    "patch": lambda: Patch("a.*", RECORD, pos=0),
    "patch_number": lambda: Patch("a.x", {"a.x": -np.inf, "b.x": 3}, strength=0.1),
    "patch_bfloat16": lambda: Patch(
        "a.x", {"a.x": jnp.array([0.1, 3e38], jnp.bfloat16)}
    ),
    "mean": lambda: Mean("a.x", {"a.x": [[0.1, 0.2], [0.3, 0.4]]}, head=0),
    "mean_of_record": lambda: Mean(
        "a.x", opto.toolkit.Record({"a.x": jnp.ones((3, 2)) / 3}, (("a.x", ("i",)),))
    ),
    "resample": lambda: Resample("a.*", RECORD, seed=7),
    "resample_in_order": lambda: Resample("a.y", RECORD, seed=None, pos=[0, 1]),
    "freeze": lambda: Freeze("blocks.*.attn.pattern", stop_gradient=True, heads="0:0"),
    "freeze_in_part": lambda: Freeze(
        "blocks.*.attn.v", strength=0.25, layer=1, head=[1, 2]
    ),
    "previous": lambda: Pattern(PreviousToken(), heads="0:1"),
    "previous_labels": lambda: Pattern(
        PreviousToken(0.7, queries="label"), strength=0.1, head=[0, 1], layer=0
    ),
    "induction": lambda: Pattern(Induction(0.8), site="layers.*.pattern"),
    "match": lambda: Pattern(Match(), mask=MASK[:1, :1]),
    "match_soft": lambda: Pattern(Match(np.float32(0.1)), heads=[(0, -1)]),
    "uniform": lambda: Pattern(Uniform(queries="exemplar query")),
    "own_kind": lambda: Pattern(Last(0.3, places=3), heads="0:0"),
    "own_edit": lambda: Shift("a.x", -2, strength=0.5, head=1),
    "block": lambda: Block(distance=1, queries="label", heads="0:1"),
    "block_in_part": lambda: Block(
        keys="exemplar query", strength=0.3, site="a.scores"
    ),
    "block_far": lambda: Block(distance=0, mask=MASK[:, :, None]),
    "graft": lambda: Graft('runs/it\'s "mine"', until=0),
    "graft_from": lambda: Graft(
        "runs/7", from_=1, checkpoint=64, edits=[Zero("a.x", head=0)]
    ),
    "graft_deep": lambda: Graft(
        "a",
        until=-1,
        edits=[
            Graft("b", until=0, edits=[Pattern(Match(0.5)), Patch("a.x", RECORD)]),
            CopyFromPattern(heads="1:1", edits=[Shift("a.x", mask=MASK)]),
        ],
    ),
    "copy": lambda: CopyFromPattern(
        heads="1:3", site="a.scores", logits="out", strength=0.5
    ),
    "copy_edited": lambda: CopyFromPattern(
        layer=1, head=0, edits=[Freeze("a.x"), Pattern(Uniform(), heads="0:1")]
    ),
    "perfect": lambda: PerfectPreviousToken(),
    "perfect_later": lambda: PerfectPreviousToken(3, strength=0.1),
    "project": lambda: Project("a.x", [[1, -2, 3e-40], [0.5, 0.25, -1]], layer=1),
    "project_to": lambda: Project(
        "a.x", np.ones((2, 3, 1, 4), np.float32), axes="layer head unit", to=[-0.5]
    ),
    "patch_within": lambda: Patch(
        "a.x", RECORD, basis=[3, -4], axes="d_model", strength=0.5
    ),
    "patch_between": lambda: Patch(
        "a.x", RECORD, pos=PerExample([[1, -2], [0, 3]]), source_pos=[4, 0]
    ),
    "zero_per_example": lambda: Zero("**.x", pos=PerExample(np.arange(3)), head=1),
    "zero_named": lambda: Zero("**.x", pos="label"),
    "path": lambda: PathPatch(
        At("a.x", heads="0:1", pos=[0, -1]),
        At("b.*", mask=MASK, layer=1),
        RECORD,
        frozen=["a.*", "**.z"],
        strength=0.5,
    ),
}


def as_read(array):
    """The array that a text reads back as: texts have no narrow dtypes."""
    if array.dtype.itemsize >= 4 or array.dtype == bool:
        return array
    wide = jnp.int32 if jnp.issubdtype(array.dtype, jnp.integer) else jnp.float32
    return array.astype(wide)


def assert_is(read, edit):
    """Asserts equal type, text, structure and arrays, to the bit."""
    assert type(read) is type(edit)
    assert read.text() == edit.text()
    assert jax.tree.structure(read) == jax.tree.structure(edit)
    for ours, expected in zip(*map(jax.tree.leaves, (read, edit)), strict=True):
        expected = as_read(expected)
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        assert np.asarray(ours).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("name", EDITS)
def test_the_text_reads_back_as_the_edit(name):
    edit = EDITS[name]()
    text = edit.text()
    assert "\n" not in text
    assert_is(parse(text), edit)
    assert_is(parse(f"\n {text} \t"), edit)


def test_all_edits_and_kinds_are_in_the_table():
    """The message about an unknown name lists all known ones."""
    with pytest.raises(ValueError, match="known: ") as caught:
        parse("Foo()")
    known = re.search("known: (.*)", str(caught.value)).group(1).split(", ")
    # Without edits that other test files register.
    ours = (opto, opto.attention, opto.patching, edits)
    known = {name for name in known if any(hasattr(room, name) for room in ours)}
    made = [make() for make in EDITS.values()]
    assert known == {type(edit).__name__ for edit in made} - {"Shift"}
    texts = " ".join(edit.text() for edit in made)
    kinds = {kind.__name__ for kind in opto.attention.Kind.__subclasses__()}
    assert all(
        f"{kind}(" in texts for kind in kinds & {*dir(opto.attention), *dir(edits)}
    )


def test_floats_are_exact():
    """Random bits, so every magnitude, and the ends of the range."""
    bits = np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32)
    ends = np.array([0, -0.0, 1e-45, -1.17549435e-38, 3.4028235e38], np.float32)
    values = np.concatenate([bits.view(np.float32), ends])
    values = values[np.isfinite(values)]
    assert len(values) > 3900
    for edit in (Clamp("x", values), Steer("x", values[None]), Scale("x", values[:9])):
        assert_is(parse(edit.text()), edit)
    infinite = np.append(values, [np.inf, -np.inf]).astype(np.float32)
    edit = Patch("x", {"x": infinite}, strength=values[1])
    assert_is(parse(edit.text()), edit)
    with jax.enable_x64(True):
        edit = Clamp("x", np.append(bits, 0) / 3.0, strength=np.float64(1) / 3)
        assert edit.value.dtype == np.float64
        assert_is(parse(edit.text()), edit)


def test_long_arrays_are_shown_by_type_and_shape():
    values = {"x": np.arange(101.0), "y": np.arange(100.0)}
    edit = Patch("*", values)
    numbers = ", ".join(f"{x}.0" for x in range(100))
    digest = hashlib.sha256(np.arange(101, dtype=np.float32).tobytes()).hexdigest()[:6]
    long = f"float32[101, 'sha {digest}']"
    assert repr(edit) == f"Patch('*', values={{'x': {long}, 'y': [{numbers}]}})"
    nested = CopyFromPattern(heads="1:1", edits=[edit])
    assert long in repr(nested)
    assert long not in nested.text()
    with pytest.raises(ValueError, match="expected a string, a number or a list"):
        parse(repr(edit))


def test_how_texts_look():
    looks = [
        (EDITS["previous"](), "Pattern(PreviousToken(weight=1.0), heads='0:1')"),
        (EDITS["block"](), "Block(queries='label', distance=1, heads='0:1')"),
        (EDITS["freeze_in_part"]().where, "Where("),
        (EDITS["patch_number"](), "Patch('a.x', values={'a.x': -1e999}, strength=0.1)"),
        (At("b.*", heads="1:0"), "At('b.*', heads='1:0')"),
        (Zero("x", mask=MASK[:1]), "Zero('x', mask=[[True, False, True]])"),
        (Zero("x").each("layer", "pos"), "Zero('x').each('layer', 'seq')"),
        (opto.stack([Zero("x")]), "stack([Zero('x')])"),
    ]
    for edit, text in looks:
        assert repr(edit).startswith(text)


# The user's own edits and kinds.


def test_ones_own_in_a_run():
    """They work by their texts, together with other edits."""
    edits = [parse("Pattern(Last(0.5), head=0)"), parse("Shift('pattern', pos=4)")]
    # `Last` has made all keys of token 4 equal, so to shift them changes nothing.
    with pytest.warns(opto.NoEffectWarning, match="Shift"):
        pattern, _ = opto.run(Tokens(), jnp.array([1, 0, 1]), edits=edits)
    expected = np.tri(5) / np.arange(1, 6)[:, None]
    expected[[1, 3]] = 0.5 * np.eye(5, k=-2)[[1, 3]]
    expected[4] = np.roll(expected[4], 1)
    np.testing.assert_allclose(pattern[0], expected, atol=1e-6)


def test_names_that_are_taken():
    assert opto.toolkit.register(Shift) is Shift
    assert opto.toolkit.register(Last) is Last
    # A kind cannot take the name of an edit, nor an edit the name of a kind.
    for name, base in (
        ("Zero", opto.toolkit.Edit),
        ("Shift", opto.attention.Kind),
        ("At", opto.toolkit.Edit),
    ):
        own = type(name, (base,), {"__module__": "somewhere"})
        with pytest.raises(ValueError, match=f"the name {name} is taken by "):
            opto.toolkit.register(own)
    assert parse("Zero('x')").site == "x"


# Mistakes. The bar is before the character that the message points to.

MISTAKES = {
    "¦Inducton()": "no edit 'Inducton'; known: ",
    "Pattern(¦Inducton())": "no edit 'Inducton'; did you mean 'Induction'?",
    "Pattern(kind=¦Mach(0.1))": "no edit 'Mach'; did you mean 'Match'?",
    "Pattern(¦Induction(wieght=0.5))": "unexpected keyword argument 'wieght'",
    "Pattern(¦Induction(1.5))": "weight is a number in [0, 1], got 1.5",
    "¦Pattern(Zero('x'))": "Pattern takes a kind of pattern such as Uniform(), got Z",
    "¦Pattern(Induction(), strenght=0.5)": "strenght= takes whole-number indices, got",
    "¦Match(0.1)": "no edit 'Match'",
    "CopyFromPattern(edits=[Zero('x'), ¦Zer('y')])": "no edit 'Zer'; did you mean 'Z",
    "¦CopyFromPattern(edits=Zero('x'))": "edits is a sequence of edits, got one: write",
    "Graft('a', until=0, edits=[Zero('x'), ¦Zero('y', head=[])])": "selects nothing",
    "Patch('x', ¦{'x': y})": "expected a string, a number or a list, got \"{'x': y}\"",
    "¦Patch('x', {'y': 1.0})": "Patch: no value for 'x'; there are values for y",
    "¦PathPatch('x', At('y'), {'x': 1})": "senders is an opto.At(...), got 'x'",
    "Zero('x',\n  head=1)¦)": "unmatched ')'",
    "Clamp('é',\n'→', axes=¦one)": "expected a string, a number or a list, got 'one'",
    "¦Zero('x', mask=[[False]])": "mask= selects nothing",
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("marked", MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_pointed_at(marked):
    text = marked.replace("¦", "").strip()
    message = f"{text!r}, character {marked.index('¦') + 1}: "
    with pytest.raises(ValueError, match=re.escape(MISTAKES[marked])) as caught:
        parse(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_nothing_is_evaluated_at_any_depth(tmp_path):
    """If any part of the text ran, it would leave a file."""
    path = tmp_path / "made"
    made = f'open("{path}", "w")'
    for text in (
        "Pattern({})",
        "Pattern(Induction({}))",
        "CopyFromPattern(edits=({}, [Zero({})]))",
        "Graft({}, until=0)",
        "Graft('a', until=0, edits=[Pattern(PreviousToken(queries={}))])",
        "Patch('x', {{'x': {}}})",
        "Patch('x', {{{}: 1.0}})",
        "PathPatch(At({}), At('y'), {{'x': 1}})",
        "Zero('x', head=[0 for _ in [{}]])",
        "Zero(f'{{{}}}')",
        "Zero('x', **{})",
    ):
        with pytest.raises(ValueError, match="expected|[*][*] is not allowed here"):
            parse(text.replace("{}", made).replace("{{", "{").replace("}}", "}"))
    assert not path.exists()
    eval(f"{made}.close()")  # The code would really do it.
    assert path.exists()
