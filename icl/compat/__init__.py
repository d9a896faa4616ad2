"""Runs and weights of other codebases, as this one's.

Each codebase has a folder, which makes itself known as a plug-in would. Earlier formats
of our own runs do not belong here: `icl.config` and `icl.runs` read them.
"""
