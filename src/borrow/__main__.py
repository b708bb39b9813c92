"""`python -m borrow` is the command `borrow`."""

import sys

if __name__ == "__main__":
    try:
        from borrow.cli import main

        main(prog_name="borrow")
    except KeyboardInterrupt:  # before `main` had begun, which says the same
        sys.stderr.write("borrow: interrupted\n")
        sys.exit(130)
