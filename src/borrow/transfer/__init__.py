"""Does the other data help? Which of it, how sure are we, and what to measure next.

Reading order: methods (what is compared) -> problem (a table, read once) -> folds (one fit) -> ledger (the file of
results) -> decide (intervals, the rule) -> attribute (how each secondary is related, and what it is worth) ->
verdict (words) -> comparison (findings) -> compare (and the quick look) -> auto -> suggest.
"""
