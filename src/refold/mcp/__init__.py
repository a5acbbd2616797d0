"""The MCP server: any agent can look up what any agent did.

It serves the user's own stores and, read-only, the sessions of other programs on this machine. Answers are
bounded, without secrets, and framed as records. Needs the extra `mcp` (`pip install "refold[mcp]"`); the
official package is `mcp`, this one is `refold.mcp`.
"""

from __future__ import annotations
