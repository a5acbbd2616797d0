"""Statistics of the sessions on a machine: where tokens went, and what compactions removed.

A worker reads one file and returns a `SessionFindings` for each conversation in it
(`refold.discover.session`); `refold.discover.jobs` folds the view before a compaction again;
`refold.discover.summary` adds up. All figures are counted from logs by code, and nothing leaves the machine.
"""
