"""A Python agent over MCP: its model writes Python, ipybox runs it, and you decide on tool calls.

Run it with `ANTHROPIC_API_KEY=… uv run --with 'mcp>=2' examples/agent.py [TASK]`; `ipybox` must be on
your PATH. It asks its model without a library, to show the whole loop.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request

from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

MODEL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
KEY = os.environ["ANTHROPIC_API_KEY"]
TASK = " ".join(sys.argv[1:]) or "Which of New York, Chicago and Los Angeles is the coldest?"
SYSTEM = """Act by writing Python. For the weather, register the MCP server `everything`:
`npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio`."""


def ask_model(**body):
    headers = {
        "x-api-key": KEY,
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    }
    data = json.dumps({"model": "claude-sonnet-5-5", "max_tokens": 4096, "system": SYSTEM, **body})
    with urllib.request.urlopen(urllib.request.Request(MODEL, data.encode(), headers)) as response:
        return json.load(response)["content"]


async def approve(_context, question):
    """Asks you about a call. The first choice of the form allows it once."""
    answer = await asyncio.to_thread(input, f"{question.message}\n\nAllow? [y/N] ")
    if answer.strip().lower() != "y":
        return ElicitResult(action="decline")
    decision = question.requested_schema["properties"]["decision"]["default"]
    return ElicitResult(action="accept", content={"decision": decision})


async def call_tool(ipybox, call):
    result = await ipybox.call_tool(call["name"], call["input"])
    text = "\n".join(block.text for block in result.content if block.type == "text")
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text}


async def main():
    with tempfile.TemporaryDirectory() as workspace:
        server = StdioServerParameters(command="ipybox", args=["mcp", "--workspace", workspace])
        async with Client(server, elicitation_callback=approve) as ipybox:
            offered = (await ipybox.list_tools()).tools
            keys = {"name", "description", "input_schema"}
            tools = [tool.model_dump(include=keys) for tool in offered]
            messages = [{"role": "user", "content": TASK}]
            calls = True
            while calls:
                answer = await asyncio.to_thread(ask_model, messages=messages, tools=tools)
                calls = [block for block in answer if block["type"] == "tool_use"]
                results = [await call_tool(ipybox, call) for call in calls]
                messages.append({"role": "assistant", "content": answer})
                messages.append({"role": "user", "content": results})
            print("".join(block["text"] for block in answer if block["type"] == "text"))


asyncio.run(main())
