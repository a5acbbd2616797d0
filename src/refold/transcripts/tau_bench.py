"""τ-bench: a list of runs, each an OpenAI conversation with its task and reward (τ²: `simulations`)."""

from __future__ import annotations

from refold import messages as m
from refold.protocols import Loaded
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile, seconds
from refold.transcripts.builder import Builder, chat_calls, chat_parts, chosen_object, usage
from refold.transcripts.values import as_list, as_name, as_object, as_text, first, without

name = "tau-bench"

_USED = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "timestamp", "usage"})


def detect(head: Head) -> float:
    value = head.first
    value = as_object(value).get("simulations", value)
    run = as_object(value) or first(value)
    if "traj" in run or ("task_id" in run and "messages" in run):
        return 0.95
    return 0.5 if "task_id" in run and "trial" in run else 0.0


def read(source: TranscriptFile) -> Loaded:
    run = chosen_object(source, within="simulations")
    log = Builder(name, source)
    key = "traj" if "traj" in run else "messages"
    for index, item in enumerate(as_list(run.get(key))):
        raw = as_object(item)
        message = _message(raw)
        if message is None:
            log.strange(raw, item, index)
            continue
        spent = as_object(raw.get("usage"))
        log.say(
            message,
            index,
            time=seconds(raw.get("timestamp")),
            usage=usage(prompt=spent.get("prompt_tokens"), output=spent.get("completion_tokens")),
            meta={key: value for key, value in without(raw, _USED).items() if value is not None},
        )
    log.info.update(without(run, frozenset({key})))
    title = f"task {run['task_id']}" if isinstance(run.get("task_id"), int | str) else None
    trial = f"-{run['trial']}" if isinstance(run.get("trial"), int) else ""
    return log.loaded(id=f"{title}{trial}".replace(" ", "-") if title else None, title=title)


def _message(raw: JsonObject) -> m.Message | None:
    """A message in OpenAI's spelling; None if it has another role."""
    content = tuple(chat_parts(raw.get("content")))
    match raw.get("role"):
        case "system" | "developer":
            return m.System(content)
        case "user":
            return m.User(content)
        case "assistant":
            calls = chat_calls(raw.get("tool_calls"))
            return m.Assistant((*content, *calls), "tool_use" if calls else "end")
        case "tool" | "function":
            call = as_text(raw.get("tool_call_id")) or as_text(raw.get("id"))
            return m.Result(call, content, as_name(raw.get("name")), raw.get("error") is True)
        case _:
            return None
