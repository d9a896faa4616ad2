"""Implicit likelihood-ratio tests (arXiv 2603.10573): an encoder that discriminates.

Everything for this paper: its runs, its figures and their claims.
"""
