"""What strict providers accept, written from their rules alone; it shares nothing with what is tested by it.

Each function raises `RefusalError` for a conversation that the provider answers with an error. In one thing they are
stricter than some of them: results are in the order of the calls.
"""

from __future__ import annotations


class RefusalError(Exception):
    pass


def need(condition, why):
    if not condition:
        raise RefusalError(why)


def openai(messages):
    """An assistant's `tool_calls` are followed by one message of the role `tool` for each; these stand nowhere else."""
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            need(waiting, "a tool message that answers nothing")
            need(waiting.pop(0) == message["tool_call_id"], "another call was next")
            continue
        need(not waiting, "calls that are not answered")
        ids = [call["id"] for call in message.get("tool_calls") or []]
        need(all(ids) and len(set(ids)) == len(ids), "ids")
        waiting = list(ids)
    need(not waiting, "calls that are not answered")


def responses(items):
    """Each `function_call` has one output of its `call_id`, later; what the model said in one go is not torn apart."""
    waiting, answering, seen = [], False, set()
    for item in items:
        if item.get("type") == "function_call_output":
            need(waiting, "an output that answers nothing")
            need(waiting.pop(0) == item["call_id"], "another call was next")
            answering = bool(waiting)
            continue
        need(not answering, "outputs are torn apart")
        if item.get("type") == "function_call":
            need(item["call_id"] and item["call_id"] not in seen, "ids")
            seen.add(item["call_id"])
            waiting.append(item["call_id"])
        elif item.get("role") == "user":
            need(not waiting, "calls that are not answered")
    need(not waiting, "calls that are not answered")


def anthropic(messages):
    """The message after `tool_use` blocks is the user's; it begins with a `tool_result` for each and has no others."""
    waiting, seen = [], set()
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        need(blocks, "an empty message")
        need(all(block["type"] != "text" or block["text"] for block in blocks), "an empty text")
        if waiting:
            need(message["role"] == "user", "the user has not answered")
        for block in blocks:
            if waiting:
                need(block["type"] == "tool_result", "results come first")
            if block["type"] == "tool_result":
                need(waiting and waiting.pop(0) == block["tool_use_id"], "a result that answers nothing")
        for block in blocks:
            if block["type"] == "tool_use":
                need(message["role"] == "assistant", "who calls")
                need(block["id"] and block["id"] not in seen, "ids")
                seen.add(block["id"])
                waiting.append(block["id"])
    need(not waiting, "calls that are not answered")


def google(contents):
    """As many responses as calls, in the next content; calls come behind the user or behind responses."""
    waiting, before = [], None
    for content in contents:
        need(content["parts"], "an empty content")
        calls = [part["function_call"] for part in content["parts"] if "function_call" in part]
        answers = ["function_response" in part for part in content["parts"]]
        told = [part["function_response"] for part in content["parts"] if "function_response" in part]
        need(answers == sorted(answers, reverse=True), "responses come first")
        need([call["name"] for call in waiting] == [response["name"] for response in told], "responses to the calls")
        for call, response in zip(waiting, told, strict=True):
            need(not call.get("id") or not response.get("id") or call["id"] == response["id"], "another call")
        if calls:
            need(content["role"] == "model" and before == "user", "a call out of turn")
        waiting, before = calls, content["role"]
    need(not waiting, "calls that are not answered")


def pydantic_ai(messages):
    """The message after `tool-call` parts is a request; each call has its part there, before what is said in it."""
    waiting, seen = [], set()
    for message in messages:
        need(message["parts"], "an empty message")
        need(not waiting or message["kind"] == "request", "calls that are not answered")
        for part in message["parts"]:
            kind = part["part_kind"]
            if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
                need(message["kind"] == "request", "who answers")
                need(waiting and waiting.pop(0) == (part["tool_call_id"], part["tool_name"]), "another call was next")
            elif kind == "tool-call":
                need(message["kind"] == "response", "who calls")
                need(part["tool_call_id"] and part["tool_call_id"] not in seen, "ids")
                seen.add(part["tool_call_id"])
                waiting.append((part["tool_call_id"], part["tool_name"]))
            elif message["kind"] == "request":
                need(not waiting, "results come first")
    need(not waiting, "calls that are not answered")


CHECKS = {
    "openai": openai,
    "responses": responses,
    "anthropic": anthropic,
    "google": google,
    "pydantic_ai": pydantic_ai,
}


def accepts(shape, messages):
    try:
        CHECKS[shape](messages)
    except RefusalError:
        return False
    return True
