"""Long-term memory: notes across sessions (A19, A20). Pure; `refold.stores.memory_file` reads and writes
files."""

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
from refold.memory.notes import MemoryNote, note, parse_notes, quoted_memory, written

__all__ = [
    "Compressed", "MemoryNote", "MemoryParams", "Untouched", "accept", "build_request", "check", "compress",
    "needs_compression", "note", "parse_notes", "quoted_memory", "written",
]  # fmt: skip
