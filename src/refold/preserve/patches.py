"""Patches as agents write them: the envelope of `apply_patch`, unified diffs, search-and-replace blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from refold.preserve.action import Action, Verb, tidy

LIMIT = 2_000_000
"""Characters of a patch that are looked at."""
_BEGIN = re.compile(r"^\*\*\* (Add|Update|Delete|Move to|Move)(?: File)?: *(.+)$", re.M)
_END = re.compile(r"^\*\*\* End Patch", re.M)
_DIFF = re.compile(r"^--- (?:a/)?(\S++)[^\n]*+\n\+\+\+ (?:b/)?(\S++)", re.M)
_VERBS: Mapping[str, Verb] = {"Add": "create", "Update": "modify", "Delete": "delete"}


def patch_actions(patch: str) -> Iterator[Action]:
    """Files named by an `apply_patch` envelope or the headers of a unified diff, each with its last hunk."""
    patch = patch[:LIMIT]
    sections = list(_BEGIN.finditer(patch))
    yield from _envelope(patch, sections) if sections else _unified(patch)


def _envelope(patch: str, sections: list[re.Match[str]]) -> Iterator[Action]:
    last = ""
    for section, end in _spans(patch, sections):
        word, path = section[1], section[2].strip()
        stop = _END.search(patch, section.end(), end)
        old, new = last_hunk(patch[section.end() : stop.start() if stop else end])
        if word in _VERBS:
            last = path
            yield Action(_VERBS[word], tidy(path), old, new)
        elif last:
            yield Action("delete", tidy(last), moved=True)
            yield Action("create", tidy(path), old, new, source=tidy(last))


def _unified(patch: str) -> Iterator[Action]:
    for header, end in _spans(patch, list(_DIFF.finditer(patch))):
        before, after = header[1], header[2]
        old, new = last_hunk(patch[header.end() : end])
        if after == "/dev/null":
            yield Action("delete", tidy(before))
        else:
            yield Action("create" if before == "/dev/null" else "modify", tidy(after), old, new)


def _spans(patch: str, headers: Sequence[re.Match[str]]) -> Iterator[tuple[re.Match[str], int]]:
    """Each header with the place where what it stands above ends."""
    ends = [*(header.start() for header in headers[1:]), len(patch)]
    return zip(headers, ends, strict=False)


def last_hunk(body: str) -> tuple[str, str]:
    """The lines that the last hunk of a patch takes out and puts in."""
    start = max(body.rfind("\n@@"), 0)
    rows = body[start:].split("\n")
    old = "\n".join(row[1:] for row in rows if row.startswith("-") and not row.startswith("---"))
    new = "\n".join(row[1:] for row in rows if row.startswith("+") and not row.startswith("+++"))
    return old, new


def last_block(diff: str) -> tuple[str, str]:
    """The last `SEARCH … ======= … REPLACE` block of a diff, or its last hunk."""
    start = diff.rfind("SEARCH")
    middle = diff.find("\n=======", start) if start >= 0 else -1
    if middle < 0:
        return last_hunk(diff)
    end = diff.find("REPLACE", middle)
    old = diff[diff.find("\n", start) + 1 : middle]
    new = diff[middle + len("\n=======") : end if end >= 0 else len(diff)]
    return old, new.strip("\n").rstrip("+> ").rstrip("\n")
