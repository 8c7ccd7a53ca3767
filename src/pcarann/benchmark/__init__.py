"""How the method is measured: runs become records, and records become tables, figures and sentences.

`paper` has every number of the paper, runs its models and the baselines and shows ours beside them; `best` goes past
it; `report` says what all of it amounts to, on one page. `records`, `text` and `machine` serve the three. `demo` is the
demonstration, which needs no records.
"""
