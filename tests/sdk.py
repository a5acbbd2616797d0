"""The providers' own SDKs, and that of MCP. Each is imported when a test first names it: that takes seconds, which every
process of a run would spend while it collects the tests."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name not in ("anthropic", "openai", "mcp", "jsonschema", "uvicorn"):
        raise AttributeError(name)
    return import_module(name)
