"""Plug-ins for coding agents, which use refold without a gateway.

`refold/` is one folder for Claude Code and Codex: hooks, slash commands and the MCP server; `opencode.js`
is for opencode. `install` installs and removes them. They start `hook` (fast, standard library only),
`compaction_texts` and `opencode` (the view for opencode).
"""
