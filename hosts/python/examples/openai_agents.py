"""OpenAI Agents."""

from collections.abc import Sequence
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from douane_host import http_client, task


class Scripted(Model):
    """Calls the tool once, and says so: no model is asked."""

    async def get_response(self, **asked: Any) -> ModelResponse:
        """Call `page`, unless it has answered."""
        done = not isinstance(asked["input"], str) and any("output" in i for i in asked["input"])
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        said = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        call = ResponseFunctionToolCall(
            type="function_call", call_id="c", name="page", arguments="{}"
        )
        return ModelResponse(output=[said if done else call], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Nothing is streamed here."""
        raise NotImplementedError


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    set_tracing_disabled(disabled=True)
    params = {"url": url, "headers": headers, "httpx_client_factory": http_client}
    async with MCPServerStreamableHttp(params) as server:
        agent = Agent(name="clerk", model=Scripted(), mcp_servers=[server])
        for words in requests:
            async with task(words):
                await Runner.run(agent, words)
