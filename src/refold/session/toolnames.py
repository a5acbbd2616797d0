"""What the tools of the common agents do, by name: data, and one lookup.

Agents call the same thing by many names (`Read`, `read_file`, `view`, `cat`). Code that interprets tool calls
asks `kind(name)` and reads arguments through `argument(call, PATHS)`; a new agent is a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

from refold.messages import Call, compact_json

RECALL_TOOL_NAME = "recall_conversation"
"""The tool of refold that reads the log."""

ToolKind: TypeAlias = Literal[
    "ls", "glob", "grep", "read", "edit", "write", "create", "delete", "move", "patch", "bash", "editor",
    "todo", "other",
]  # fmt: skip

_NAMES: Mapping[ToolKind, str] = {
    # Claude Code, pi, layered, Gemini CLI, Codex, OpenHands, SWE-agent, Cursor, Cline/Roo, Windsurf, aider,
    # Copilot, Augment, Zed, Goose and the MCP filesystem server.
    "read": """read read_file readfile view view_file open open_file cat read_many_files read_text_file
        read_multiple_files get_file_contents read_files view_image notebookread read_notebook
        view_line_range view_code_item goto scroll_up scroll_down get_file_content file_read fs_read
        read_range read_media_file""",
    "edit": """edit edit_file multiedit multi_edit replace replace_in_file str_replace search_replace
        search_and_replace apply_diff insert insert_content insert_edit_into_file notebookedit edit_notebook
        replace_string_in_file multi_replace_string_in_file edit_existing_file replace_lines insert_lines
        append_to_file reapply propose_code update_file edit_file_by_replace edit_file_by_line
        replace_file_content multi_replace_file_content edit_block patch_file fs_edit modify_file""",
    "write": """write write_file write_to_file save_file put_file overwrite_file file_write fs_write
        write_text_file create_or_update_file save_to_file rewrite_file""",
    "create": """create create_file create_new_file new_file add_file""",
    "delete": """delete delete_file remove remove_file remove_files delete_files rm unlink delete_path""",
    "move": """move move_file rename rename_file mv move_path""",
    "patch": """apply_patch applypatch git_apply""",
    "editor": """str_replace_editor str_replace_based_edit_tool text_editor text_editor_20250124
        text_editor_20250728 file_editor edit_anthropic str_replace_editor_tool developer__text_editor""",
    "bash": """bash shell execute_bash run_shell_command run_terminal_cmd run_terminal_command execute_command
        terminal run_in_terminal launch_process launch-process local_shell exec exec_command run_command run
        container.exec shell_command bash_command execute_shell sh cmd powershell run_bash execute shell_exec
        developer__shell unified_exec""",
    "ls": """ls list list_directory list_dir list_files listdir view_folder read_folder list_directory_tree
        directory_tree""",
    "glob": """glob glob_files find_file find_files find file_search find_by_name search_files_by_name
        glob_file_search find_path list_code_definition_names""",
    "grep": """grep grep_search search_files search_file_content search_dir search_file search_text
        ripgrep rg search codebase_search content_search find_in_files file_grep""",
    "todo": """todowrite todo_write update_plan write_todos todo manage_todo_list todoread todo_read
        update_todos task_tracker update_todo_list plan add_tasks update_tasks set_plan""",
}  # fmt: skip


SUB_AGENTS = frozenset({"task", "agent", "subagent", "newtask", "spawnagent", "delegate", "delegatetask"})
"""Tools, by their canonical names, that let another agent work, which may change files."""
READING_AGENTS = frozenset({"explore", "plan"})
"""Kinds of such agents that have no tool to change a file."""


@lru_cache(maxsize=1024)
def canonical_tool_name(name: str) -> str:
    """A tool name without case, separators, server and namespace prefixes."""
    name = name[:200].rsplit("__", 1)[-1] if name.startswith("mcp__") else name[:200]
    name = name.removeprefix("functions.").removeprefix("default_api.")
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "").replace(".", "")


TOOL_KINDS: Mapping[str, ToolKind] = {
    canonical_tool_name(name): kind for kind, names in _NAMES.items() for name in names.split()
}

PATHS = (
    "file_path", "path", "filePath", "absolute_path", "absolutePath", "target_file", "filename", "file_name",
    "file", "relative_path", "relativePath", "relative_workspace_path", "notebook_path", "AbsolutePath",
    "TargetFile", "FilePath", "source", "source_path", "from", "old_path", "uri",
)  # fmt: skip
MANY_PATHS = ("paths", "file_paths", "filePaths", "files", "filenames")
TARGETS = ("destination", "destination_path", "to", "new_path", "target", "dest", "newPath", "new_name")
DIRECTORIES = (
    "path", "dir_path", "directory", "dir", "DirectoryPath", "relative_workspace_path", "folder",
    "target_directory",
)  # fmt: skip
COMMAND_ARGUMENTS = ("command", "cmd", "script", "CommandLine", "command_line", "input", "code")
PATTERNS = (
    "pattern", "query", "regex", "search_term", "glob", "glob_pattern", "file_name", "Pattern", "Query",
)  # fmt: skip
PATCHES = ("input", "patch", "diff", "patchText", "content")
CONTENTS = (
    "content", "file_text", "contents", "text", "newText", "new_string", "new_str", "code_edit",
    "CodeContent",
)  # fmt: skip


def kind(name: str, extra: Mapping[str, ToolKind] | None = None) -> ToolKind:
    """The kind of a tool. `extra` maps further canonical names and takes precedence."""
    short = canonical_tool_name(name)
    found = (extra or {}).get(short) or TOOL_KINDS.get(short)
    return found or "other"


def argument(call: Call, names: Sequence[str]) -> Any:
    """The first of these arguments that the call has and that is not empty."""
    for name in names:
        value = call.arguments.get(name)
        if value not in (None, "", [], {}):
            return value
    return None


def text_argument(call: Call, names: Sequence[str]) -> str:
    """Like `argument`, as text; empty if there is none."""
    value = argument(call, names)
    return value if isinstance(value, str) else ""


def command_line(call: Call) -> str:
    """The shell command of a call: a string, or an array such as `["bash", "-lc", "ls"]`."""
    value = argument(call, COMMAND_ARGUMENTS)
    if value is None and call.raw is not None:
        return call.raw
    if isinstance(value, list):
        words = [word if isinstance(word, str) else compact_json(word) for word in cast("list[Any]", value)]
        if len(words) >= 3 and words[0].rsplit("/", 1)[-1] in SHELLS and words[1].startswith("-"):
            return words[2]
        return " ".join(shell_quoted(word) for word in words)
    return value if isinstance(value, str) else ""


SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish"})


def shell_quoted(word: str) -> str:
    if word and not any(c in " \t\n'\"\\$`|&;<>()*?[]#~" for c in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
