"""One folder per paper; the papers' reference methods under `reference`."""
