import asyncio

import pytest
from starlette.requests import Request

from pcarann.serving.bodies import Pieces, body_of
from pcarann.serving.limits import Admission, Limits, Refused

LIMITS = Limits(body=100, json=50, memory=120, seconds=0.05)


def request(pieces, ticket=None, silent=False):
    left = [{"type": "http.request", "body": one, "more_body": True} for one in pieces]
    left[-1]["more_body"] = silent

    async def receive():
        if not left:
            await asyncio.sleep(10)
        return left.pop(0)

    return Request({"type": "http", "headers": [], "pcarann.ticket": ticket}, receive)


def test_pieces_are_put_together_and_their_memory_is_counted():
    ticket = Admission(LIMITS).enter(3)
    assert asyncio.run(body_of(request([b"ab", b"cd", b"e"], ticket), LIMITS)) == b"abcde"
    assert ticket.memory == 5


@pytest.mark.parametrize(
    ("pieces", "silent", "status"),
    [([b"a" * 60, b"b" * 60], False, 413), ([b"a"], True, 408)],
)
def test_a_body_that_is_too_large_or_too_slow_is_refused(pieces, silent, status):
    with pytest.raises(Refused) as found:
        asyncio.run(body_of(request(pieces, silent=silent), LIMITS))
    assert found.value.status == status


def test_a_client_who_goes_away_is_no_failure_of_ours():
    async def receive():
        return {"type": "http.disconnect"}

    with pytest.raises(Refused, match="went away") as found:
        asyncio.run(body_of(Request({"type": "http", "headers": []}, receive), LIMITS))
    assert found.value.status == 499


def test_an_answer_is_sent_in_pieces_and_a_reader_who_stops_is_left():
    parts, sent = [b"head", bytes(600_000)], []

    async def send(message):
        sent.append(message)

    async def stop(message):
        sent.append(message)
        await asyncio.sleep(10 * (len(sent) > 2))

    asyncio.run(Pieces(parts, LIMITS, {}, "text/plain")({}, None, send))
    sizes = [len(one["body"]) for one in sent[1:]]
    assert (sum(sizes), max(sizes), sent[-1].get("more_body", False)) == (600_004, 1 << 18, False)
    assert (b"content-length", b"600004") in sent[0]["headers"]
    sent.clear()
    answer = Pieces(parts, LIMITS, {}, "text/plain")
    answer.seconds = 0.05
    asyncio.run(answer({}, None, stop))
    assert len(sent) == 3
