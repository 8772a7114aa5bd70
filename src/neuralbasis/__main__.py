"""`python -m neuralbasis` is the command `neuralbasis`."""

from .cli import main

if __name__ == "__main__":
    main()
