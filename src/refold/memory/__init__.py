"""Long-term memory: notes across sessions (A19, A20). Pure; files are `refold.stores.memory_file`'s work."""

from __future__ import annotations

from refold.memory.compression import (
    Compressed,
    MemoryParams,
    Untouched,
    accept,
    build_request,
    check,
    compress,
    needs_compression,
)
from refold.memory.notes import Note, in_context, note, parse, written

__all__ = [
    "Compressed", "MemoryParams", "Note", "Untouched", "accept", "build_request", "check", "compress",
    "in_context", "needs_compression", "note", "parse", "written",
]  # fmt: skip
