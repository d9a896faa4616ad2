"""Finding kinds: in packages, in installed plug-ins and with `--import`."""

import dataclasses
import os
import subprocess
import sys

import pytest
from small import small

from icl import measures, plugins
from icl.measures._text import _MEASURES
from icl.presets import preset, presets
from icl.presets._preset import _PRESETS
from icl.protocols import TaskConfig
from icl.unions import OpenUnion
from opto.toolkit import REGISTERED
from sweeps.folder import Folder


# A task and a preset from outside the package.
PLUGIN = """
import dataclasses

from icl import Experiment, TaskSet, Training
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.presets import preset
from icl.protocols import TaskConfig
from icl.tasks.exemplar_label import ExemplarLabel, Relabel, Split


@dataclasses.dataclass(frozen=True)
class FewClasses(TaskConfig):
    source = LowRankClasses()
    classes: int = 8

    def build(self, data):
        splits = {"class_split": Split(self.classes), "exemplar_split": Split(1)}
        return ExemplarLabel(**splits, labels=Relabel(4)).build(data)


@preset
def few_classes():
    return Experiment(
        FewClasses(),
        data=LowRankClasses(12, 2, 8),
        model=TransformerConfig(d_model=8, num_heads=2),
        training=Training(64, 16),
        evaluations={"train": TaskSet(8)},
    )
"""


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "few.py"
    file.write_text(PLUGIN)
    return file


@pytest.fixture(autouse=True)
def forgotten():
    """Isolates a test's modules and kinds from those of other tests."""
    TaskConfig.members(), presets(), measures.names()
    tables = TaskConfig._kinds, _PRESETS, _MEASURES, *REGISTERED
    kept = [dict(table) for table in tables]
    before, named = {*sys.modules}, plugins.imported()
    plugins._imported.clear()
    yield
    for table, old in zip(tables, kept, strict=True):
        table.clear()
        table.update(old)
    for name in {*sys.modules} - before:
        if not name.startswith(("icl", "opto", "jax")):
            del sys.modules[name]
    plugins._imported[:] = named


def icl(*arguments, **options):
    """Runs the command; returns its status, output and errors."""
    command = [sys.executable, "-m", "icl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def refused(*arguments, **options):
    """The one line that a refused command prints."""
    status, out, err = icl(*arguments, **options)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err


# Packages


def package(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


ANIMAL = """
import dataclasses
from animals import Animal

@dataclasses.dataclass(frozen=True)
class {}(Animal):
    legs: int = 4
"""


def test_a_new_file_in_a_package_is_a_member(tmp_path, monkeypatch):
    union = 'class Animal(OpenUnion, packages=("zoo", "farm")): pass'
    package(
        tmp_path,
        {
            "animals.py": f"from icl.unions import OpenUnion\n{union}",
            "zoo/__init__.py": "",
            "zoo/lion.py": ANIMAL.format("Lion"),
            "zoo/_stuffed.py": ANIMAL.format("Stuffed"),
            "zoo/birds/__init__.py": "",
            "zoo/birds/owl.py": ANIMAL.format("Owl"),
            "farm/__init__.py": ANIMAL.format("Cow"),
        },
    )
    monkeypatch.syspath_prepend(tmp_path)
    from animals import Animal  # pyright: ignore

    assert "zoo" not in sys.modules  # Only when a kind is looked up.
    assert Animal.members().keys() == {"Owl", "Lion", "Cow"}


READ = """
import sys
import icl.edits, icl.measures

for room in (icl.edits, icl.measures):
    room.__path__.append(sys.argv[1] + "/" + room.__name__)
from icl.edits.grafts import read_edits

assert "icl.edits.reversing" not in sys.modules  # Only when a text is read.
assert "icl.measures.sizes" not in sys.modules
print(*read_edits(["Reverse('embed', head=1)"]))
print(icl.measures.parse("size(3)").label, icl.measures.names()["size(of=1)"])
assert not {"icl.edits._hidden", "icl.measures._hidden"} & {*sys.modules}
"""
REVERSE = """
import opto


@opto.toolkit.register
class Reverse(opto.Zero):
    pass
"""
SIZE = """
from ._measure import OfModel
from ._text import register


@register
def size(of=1):
    "How large it is."
    return OfModel(lambda *_: of, label=f"size of {of}")
"""


def test_a_new_file_of_edits_or_of_measures_is_found(tmp_path):
    files = {"icl.edits/reversing.py": REVERSE, "icl.measures/sizes.py": SIZE}
    hidden = [f"{room}/_hidden.py" for room in ("icl.edits", "icl.measures")]
    package(tmp_path, files | dict.fromkeys(hidden, "1 / 0"))
    command = [sys.executable, "-c", READ, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Reverse('embed', head=1)\nsize of 3 How large it is.\n"


def test_two_kinds_of_one_name_are_refused(tmp_path):
    class Beast(OpenUnion):
        pass

    def lion(file, base=Beast):
        kind = type("Lion", (base,), {"__module__": file, "__qualname__": "Lion"})
        return dataclasses.dataclass(frozen=True)(kind)

    lion("four")
    again = lion("four")  # As when a notebook cell runs twice.
    two = "'Lion' is the name of two kinds of Beast, in four and in three; rename one"
    with pytest.raises(ValueError, match=two):
        lion("three")
    assert Beast.members() == {"Lion": again}
    # The name of a base class that members share is free.
    for file in ("three", "five"):
        base = type("Cat", (Beast,), {"__module__": file})
    assert Beast.members().keys() == {"Lion"}
    assert issubclass(lion("four", base), Beast)


def test_a_file_that_fails_in_a_package_is_named(tmp_path, monkeypatch):
    package(tmp_path, {"den/__init__.py": "", "den/lion.py": "import nothing_here"})
    monkeypatch.syspath_prepend(tmp_path)

    class Beast(OpenUnion, packages=("den",)):
        pass

    match = "^den.lion cannot be imported: ModuleNotFoundError: No module named 'noth"
    for _ in range(2):
        with pytest.raises(ValueError, match=match):
            Beast.members()


# Files and modules


def test_a_file_is_run_once_under_whatever_name(tmp_path, monkeypatch):
    (tmp_path / "counted.py").write_text("import builtins\n")
    (tmp_path / "json.py").write_text("here = True")
    monkeypatch.syspath_prepend(tmp_path)
    by_path = plugins.import_plugin(str(tmp_path / "counted.py"))
    monkeypatch.chdir(tmp_path)
    assert plugins.import_plugin("counted.py") is by_path
    assert plugins.import_plugin("counted") is by_path
    import json

    own = plugins.import_plugin("json.py")  # It does not replace Python's own.
    assert own.here
    assert sys.modules["json"] is json
    assert sys.modules[own.__name__] is own
    assert plugins.import_plugin("./json.py") is own
    names = [str(tmp_path / "counted.py"), "counted", str(tmp_path / "json.py")]
    assert [*plugins.imported()] == names


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("1 / 0", "broken.py cannot be imported: ZeroDivisionError: division by zero"),
        ("x =", "broken.py cannot be imported: SyntaxError: invalid syntax"),
        ("raise SystemExit(0)", "broken.py cannot be imported: SystemExit: 0"),
        ("raise ValueError('a\\nb')", "broken.py cannot be imported: a b$"),
    ],
)
def test_a_file_that_fails_is_named(tmp_path, text, match):
    (tmp_path / "broken.py").write_text(text)
    for _ in range(2):  # A failed import leaves nothing.
        with pytest.raises(ValueError, match=match):
            plugins.import_plugin(str(tmp_path / "broken.py"))
    assert plugins.imported() == ()


def test_a_file_that_has_changed_runs_again(plugin):
    first = plugins.import_plugin(str(plugin))
    plugin.write_text(PLUGIN.replace("classes: int = 8", "classes: int = 9"))
    second = plugins.import_plugin(str(plugin))
    assert second.few_classes().task.classes == 9
    assert plugins.import_plugin(str(plugin)) is second is sys.modules["few"]
    assert first is not second
    assert TaskConfig.members()["FewClasses"] is second.FewClasses
    # A refused change may be mended.
    taken = "@dataclasses.dataclass\nclass LinearRegression(TaskConfig): ..."
    plugin.write_text(PLUGIN + taken)
    with pytest.raises(ValueError, match="two kinds of TaskConfig"):
        plugins.import_plugin(str(plugin))
    assert sys.modules["few"] is second
    plugin.write_text(PLUGIN)
    third = plugins.import_plugin(str(plugin))
    assert TaskConfig.members()["FewClasses"] is third.FewClasses


def test_two_files_cannot_share_a_name(plugin, tmp_path):
    (tmp_path / "other.py").write_text(PLUGIN)
    few = plugins.import_plugin(str(plugin))
    two = "'FewClasses' is the name of two kinds .*few.py and in .*other.py; rename one"
    with pytest.raises(ValueError, match=two):
        plugins.import_plugin(str(tmp_path / "other.py"))
    assert TaskConfig.members()["FewClasses"] is few.FewClasses


def test_what_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    with pytest.raises(ValueError, match="no such module; did you mean mine.py?"):
        plugins.import_plugin("mine")
    with pytest.raises(ValueError, match="yours cannot be imported: ModuleNotFound"):
        plugins.import_plugin("yours")
    with pytest.raises(ValueError, match="there is no file .*yours.py"):
        plugins.import_plugin("yours.py")
    for name in (".", "", "./mine", "../mine"):
        with pytest.raises(ValueError, match=f"--import must be .*, got '{name}'"):
            plugins.import_plugin(name)


def test_the_option_is_read_wherever_it_stands(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.chdir(tmp_path)
    asked = ["--import", "one.py", "eval", "runs/a", "--import=two.py", "--edit", "x"]
    assert plugins.import_from(asked) == ["eval", "runs/a", "--edit", "x"]
    assert [os.path.basename(x) for x in plugins.imported()] == ["one.py", "two.py"]
    for wrong in (["--import"], ["--import="], ["--import", "--edit"]):
        with pytest.raises(ValueError, match="--import needs the name of a module or"):
            plugins.import_from(wrong)


# Names


def test_a_preset_is_called_without_arguments():
    with pytest.raises(ValueError, match="preset wide .* default, got width without"):

        @preset
        def wide(width, *rest, seed=0, **more):
            pass


def test_two_presets_or_measures_of_one_name_are_refused():
    for add, name in ((preset, "induction"), (measures.register, "composition")):
        presets(), measures.names()
        exec(f"def {name}(): ...", taken := {"__name__": "others"})
        with pytest.raises(ValueError, match=f"'{name}' is the name of two "):
            add(taken[name])


# Commands


def test_a_plug_in_of_a_package_is_known_by_itself(tmp_path, plugin):
    """The package names its module under the entry point; users need not name it."""
    info = tmp_path / "few-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: few\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[icl.plugins]\nfew = few\n")
    paths = os.environ | {"PYTHONPATH": str(tmp_path)}
    status, out, err = icl("train", "--help", env=paths)
    assert status == 0, err
    assert "coopetition_icl, few_classes, function_" in out
    # If it fails, every command that looks for kinds says so.
    plugin.write_text("raise RuntimeError('not\\ntoday')")
    message = refused("train", "--help", env=paths)
    assert message == "icl: few cannot be imported: RuntimeError: not today\n"


# Studies


def test_a_study_keeps_the_plug_ins_of_every_launch(tmp_path):
    """A launch keeps runs of earlier launches, which may need those plug-ins."""
    folder, files = Folder(tmp_path / "out"), [tmp_path / f"{x}.py" for x in "ab"]
    with folder.claimed("ours", "smoke"):
        for file in (*files, files[0]):
            file.touch()
            plugins._imported.clear()
            plugins.import_plugin(str(file))
            folder.begin("ours", "smoke", {file.stem: small()}, {file.stem}, (), ())
    assert folder.read()["plugins"] == [*map(str, files)]
    assert [*folder.read()["runs"]] == ["a", "b"]
