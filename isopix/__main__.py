"""`python -m isopix`: the command line."""

from isopix.cli.main import main

if __name__ == "__main__":
    main()
