"""Plug-ins for coding agents, which bring refold into them without a gateway.

`refold/` is one folder for Claude Code and Codex: hooks, slash commands and the MCP server; `opencode.js` is
for opencode. `install` puts them where the programs look and takes them away again. What they start:
`hook` (at once, standard library alone), `parts` (what a compaction is told and gives back) and `live` (the
view for opencode).
"""
