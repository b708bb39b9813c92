"""One paper, one file; the papers' reference methods under `baselines`."""
