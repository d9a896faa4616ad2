"""Edits that know more than arrays: other runs, heads by what they do, token roles.

Edits that know arrays only belong to `opto`.
"""
