"""One name for one thing: options, functions, and the words of the documents."""

import ast
import collections
import importlib
import inspect
import pkgutil
import re
import textwrap

from test_docs import ROOT, TEXTS

import icl.cli
import sweeps.cli
from icl.cli.options import CommandOptions


# What an option means in all commands that have it: words that stand in each help.
MEANINGS = {
    "checkpoint": "checkpoint.* as the number of sequences seen; -1 is the last",
    "data": "HDF5 file of classes",
    "edit": "An edit",
    "folder": "folder",
    "on": "An evaluation set to use",
    "only": "A pattern of run names",
    "out": "file|folder",
    "run": "[Rr]un folder",
    "set": "field",
    "site": "^The site to",
}
# Functions of several modules, each called with its module's name: the verbs of a
# module, and what each study and each public code has.
VERBS = {
    *("check", "evaluate", "figure", "load", "main", "names", "parse", "register"),
    *("replay", "report", "run", "save", "train", "demo"),
    *("appendix", "figures", "import_run", "load_model", "rows", "runs", "trials"),
    # A preset and a toy of one paper's name; a curve of a log and of a figure.
    *("coopetition", "induction", "curves"),
}


OF_QUANTITIES = "icl.measures", "icl.report.figures"


def options_of(command):
    """The help of each option of a command, which follows its field."""
    found = {}
    for kind in reversed(command.__mro__):
        if not issubclass(kind, CommandOptions) or kind is CommandOptions:
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return found


def all_commands():
    for module in pkgutil.iter_modules(icl.cli.__path__):
        importlib.import_module(f"icl.cli.{module.name}")
    found, todo = [], [CommandOptions]
    while todo:
        kinds = todo.pop().__subclasses__()
        todo += kinds
        found += kinds
    return list(dict.fromkeys(found))


def test_an_option_means_the_same_in_every_command():
    table = collections.defaultdict(dict)
    for command in all_commands():
        for name, text in options_of(command).items():
            table[name].setdefault(text, []).append(command.__name__)
    for name, texts in sorted(table.items()):  # `pytest -s` shows it.
        for text, commands in texts.items():
            print(f"--{name.replace('_', '-'):15} {text[:70]:70} {' '.join(commands)}")
    assert len(table) > 30
    several = {name for name, texts in table.items() if len(texts) > 1}
    assert several <= MEANINGS.keys()
    wrong = [
        (name, text)
        for name, words in MEANINGS.items()
        for text in table[name]
        if not re.search(words, text)
    ]
    assert wrong == []


def test_no_two_public_functions_have_one_name():
    """But measures and kinds of figures have the name of the quantity they are of."""
    named = collections.defaultdict(set)
    for package in (icl, sweeps, importlib.import_module("opto")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if any(part.startswith("_") for part in module.name.split(".")):
                continue
            for name, value in vars(importlib.import_module(module.name)).items():
                home = getattr(value, "__module__", None) or ""
                ours = home.split(".")[0] in ("icl", "opto", "sweeps")
                if inspect.isfunction(value) and ours and not name.startswith("_"):
                    named[value.__name__].add(home)
    assert len(named) > 500
    twice = {
        name: sorted(homes)
        for name, homes in named.items()
        if len({x for x in homes if not x.startswith(OF_QUANTITIES)}) > 1
    }
    assert {name: twice[name] for name in twice.keys() - VERBS} == {}


# Words that are used against the glossary, and what to write.
INSTEAD = {
    r"\bhook points?\b": "tap, or site",
    r"\binterventions?\b": "edit",
    r"\bablation stud(y|ies)\b": "study",
    r"\bhyper-?parameters?\b": "the config's field",
    r"\bdemonstrations?\b": "pair",
    r"\bin-context examples?\b": "pair",
}
# These documents speak of other libraries in their words.
OTHERS = {"README.md", "opto/guide.md", "icl/edits/guide.md"}


def test_documents_use_the_words_of_the_glossary():
    glossary = TEXTS["docs/pages/glossary.md"]
    for word in ("site", "tap", "edit", "run", "study", "sweep", "replay", "verdict"):
        assert re.search(rf"\b{word}\b", glossary)
    found = [
        f"{name}: {match[0]!r} is {instead} here"
        for name, text in TEXTS.items()
        if name not in OTHERS
        for words, instead in INSTEAD.items()
        for match in re.finditer(words, text)
    ]
    assert found == []


def test_every_guide_begins_with_a_question_and_ends_with_more():
    guides = sorted((ROOT / "docs/pages/guides").glob("*.md"))
    pages = {x.stem: x.read_text() for x in guides if x.stem != "index"}
    assert len(pages) > 5
    for name, text in pages.items():
        first = text.split("\n\n")[1]
        assert "?" in first, name
        assert text.rstrip().split("\n\n")[-1].startswith("**See also:**"), name
