"""OpenHands SDK: LLMSummarizingCondenser, by events (its default)."""

from __future__ import annotations

from typing import Any

from adapter import SUMMARY, Peer, Wire, main


def peers() -> list[Peer]:
    from openhands.sdk.context.condenser import LLMSummarizingCondenser
    from openhands.sdk.context.view import View
    from openhands.sdk.event import ActionEvent, Condensation, MessageEvent, ObservationEvent
    from openhands.sdk.llm import LLM, Message, MessageToolCall, TextContent
    from openhands.sdk.tool.schema import Observation

    class Said(Observation):
        """A tool's text."""

    class Stub(LLMSummarizingCondenser):
        def _generate_condensation(self, forgotten_events: Any, summary_offset: int, **more: Any) -> Any:
            ids = {event.id for event in forgotten_events}
            return Condensation(
                forgotten_event_ids=ids,
                summary=SUMMARY,
                summary_offset=summary_offset,
                llm_response_id="stub",
            )

    def load(wire: list[Wire]) -> Any:
        events: list[Any] = []
        actions: dict[str, Any] = {}
        for number, message in enumerate(wire):
            if message["role"] == "tool":
                action = actions[message["tool_call_id"]]
                events.append(
                    ObservationEvent(
                        observation=Said.from_text(message["content"]),
                        action_id=action.id,
                        tool_name=action.tool_name,
                        tool_call_id=action.tool_call_id,
                    )
                )
                continue
            for call in message.get("tool_calls", ()):
                function = call["function"]
                made = MessageToolCall(
                    id=call["id"], name=function["name"], arguments=function["arguments"], origin="completion"
                )
                actions[call["id"]] = ActionEvent(
                    thought=[TextContent(text=message["content"])] if message["content"] else [],
                    tool_name=function["name"],
                    tool_call_id=call["id"],
                    tool_call=made,
                    llm_response_id=f"r{number}",
                )
                events.append(actions[call["id"]])
            if not message.get("tool_calls"):
                source = "user" if message["role"] == "user" else "agent"
                said = Message(role=message["role"], content=[TextContent(text=message["content"])])
                events.append(MessageEvent(source=source, llm_message=said))
        return events

    def wire(events: Any) -> list[Wire]:
        made: list[Wire] = []
        for event in events:
            if isinstance(event, ActionEvent):
                made.append({"role": "assistant", "content": "", "tool_calls": [{"id": event.tool_call_id}]})
            elif isinstance(event, ObservationEvent):
                made.append({"role": "tool", "tool_call_id": event.tool_call_id, "content": ""})
            else:
                made.append({"role": "user", "content": ""})
        return made

    model = LLM(model="stub/none", api_key="none", usage_id="stub")

    def fold(events: Any, keep: int, tokens: int) -> Any:
        view = View.from_events(events)
        made = Stub(llm=model, max_size=max(2 * keep, 8), keep_first=0).condense(view)
        if isinstance(made, Condensation):
            return View.from_events([*events, made]).events
        return events

    wide = Stub(llm=model, max_size=10**9)
    narrow = Stub(llm=model, max_size=40)
    return [
        Peer(
            "OpenHands LLMSummarizingCondenser",
            load,
            fold,
            wire,
            check=lambda events: wide.condense(View.from_events(events)),
            plan=lambda events: narrow._get_forgotten_events(View.from_events(events)),
            note="by events, its default; the view is built from events before every call, as its agent does",
        )
    ]


if __name__ == "__main__":
    main(("openhands-sdk",), peers)
