"""How the method is measured: runs become records, and records become tables, figures and sentences.

`settings` has every number of the paper, `runner` runs its models and the baselines, `best` and `noise` go past them,
and `machine` says where. `records` finds what was run; `tables`, `findings`, `headline` and the modules of figures show
it, ours beside the paper's; `report` puts all of it on one page. `demo` is the demonstration, which needs no records.
"""
