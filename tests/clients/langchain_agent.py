"""An agent of LangChain, as anybody would write it: `python langchain_agent.py openai|anthropic URL STEPS`."""

from __future__ import annotations

import sys

from langchain.agents import create_agent


def numbers(first: int, last: int) -> str:
    """All numbers from the first to the last."""
    return " ".join(str(number) for number in range(first, last))


def model(kind: str, url: str):
    if kind == "openai":
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(
            model="m", base_url=f"{url}/v1", api_key="key", default_headers={"X-Refold-Session": "lc"}
        )
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(
        model="m", base_url=url, api_key="key", default_headers={"X-Refold-Session": "lc"}, max_tokens=1000
    )


def main(kind: str, url: str, steps: int) -> None:
    agent = create_agent(model(kind, url), [numbers], system_prompt="Do all the steps.")
    asked = {"messages": [{"role": "user", "content": "Do all the steps, one after the other."}]}
    done = agent.invoke(asked, {"recursion_limit": 4 * steps + 10})
    print(done["messages"][-1].text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
