"""`python -m sweeps`."""

from .cli import main


# Processes that measure import this module too.
if __name__ == "__main__":
    main()
