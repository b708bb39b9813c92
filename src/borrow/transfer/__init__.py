"""Does the other data help? Which of it, how sure are we, and what to measure next.

Reading order: problem -> methods -> folds -> ledger -> run (`compare`) -> comparison -> resampled -> verdict ->
measure_next (`suggest`) -> auto -> quick.
"""
