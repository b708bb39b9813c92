"""`python -m borrow` is the command `borrow`."""

from borrow.cli import main

if __name__ == "__main__":
    main(prog_name="borrow")
