"""Makes pages of the site from the code, the results, the notebooks and documents.

Only what turns something into a page belongs here; what a page says is in the code, in
the documents, or in `docs/pages`.
"""
