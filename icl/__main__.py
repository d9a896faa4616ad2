"""`python -m icl` is the command line."""

from .cli import main


main()
