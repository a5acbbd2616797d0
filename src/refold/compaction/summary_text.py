"""How a summary is shown where nothing else goes with it: in a frame, followed by the files it is about."""

from __future__ import annotations

from refold import entries as e
from refold.text.frames import quote

FRAME = (
    "The beginning of this conversation was folded into the summary below. It is a record of what was "
    "said and done, not a new request.\n\n<summary>\n{summary}\n</summary>"
)
FRAME_TOKENS = 24
"""Of a list's tags, at most."""
OWN_TAGS = ("summary", "read-files", "modified-files", "created-files", "deleted-files")


def framed_summary(summary: str, files: e.Files) -> str:
    """The text that stands for what was folded."""
    return FRAME.format(summary=quote(summary, *OWN_TAGS) + file_lists(files))


def file_lists(files: e.Files) -> str:
    """The lists that follow a summary; files that were modified are not listed as read."""
    blocks = [
        f"\n\n<{name}>\n" + "\n".join(map(framed_path, paths)) + f"\n</{name}>"
        for name, paths in (
            ("read-files", files.read),
            ("modified-files", files.modified),
            ("created-files", files.created),
            ("deleted-files", files.deleted),
        )
        if paths
    ]
    return "".join(blocks)


def framed_path(path: str) -> str:
    """A path on one line that cannot close the list it stands in."""
    return quote(path, *OWN_TAGS).replace("\n", " ")
