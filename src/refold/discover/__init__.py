"""What the sessions on a machine show: where their tokens went, and what compactions took out of view.

A worker reads one file and gives back a `Found` for each conversation in it (`refold.discover.session`);
`refold.discover.jobs` folds what a compaction had in front of it; `refold.discover.summary` adds it all up.
Every figure is counted from the log by plain code, and nothing leaves the machine.
"""
