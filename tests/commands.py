"""Runs commands as a user does."""

import re

import pytest

from icl import cli


def call(capsys, *arguments, program=cli.main):
    """Returns a command's status, stdout and stderr."""
    with pytest.raises(SystemExit) as stop:
        program([str(x) for x in arguments])
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err


def check_refused(capsys, arguments, message, program=cli.main):
    """Checks that the status is 2, that nothing is printed, and what is said why."""
    status, out, err = call(capsys, *arguments, program=program)
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    if err.startswith(("icl: ", "sweeps: ")):
        assert err.count("\n") == 1
    # Tyro's own errors are boxes.
    assert message in " ".join(re.findall(r"[^\s│|]+", err))
