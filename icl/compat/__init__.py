"""Runs and weights of other codebases, converted to ours.

Each codebase has a folder, which registers itself like a plug-in. Earlier formats of
our own runs do not belong here: `icl.config` and `icl.runs` read them.
"""
