"""Write: the file, new or overwritten, its size, the first lines."""

from __future__ import annotations

from refold.messages import Call
from refold.session.toolnames import CONTENTS, PATHS, text_argument
from refold.shrink.base import Data, Limits, first, flags, split, top

_KEPT = ("operation", "created", "overwritten", "bytes_written", "bytes", "size", "lines")


def data(call: Call, data: Data, limits: Limits) -> Data:
    content = str(first(data, "content", "diff_preview", "preview", "diff") or "")
    written = text_argument(call, CONTENTS)
    size = first(data, "bytes_written", "bytes", "size")
    return {
        "path": first(data, "path", "file") or text_argument(call, PATHS),
        **{name: data[name] for name in _KEPT if name in data},
        "size": size if size is not None else len(written.encode("utf-8", "replace")),
        **({"first_lines": "\n".join(top(split(content), limits.write_lines, limits))} if content else {}),
        **flags(data),
    }


def plain(call: Call, text: str, limits: Limits) -> str:  # noqa: ARG001 (one signature for all rules)
    return "\n".join(top(split(text), limits.write_lines, limits))
