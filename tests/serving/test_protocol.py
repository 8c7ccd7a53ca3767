import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from served import Slow, X_fixture, arrays, model_fixture, path_fixture, question, running  # noqa: F401

from pcarann import load
from pcarann.backend.concurrency import cores
from pcarann.serving.limits import Limits

INFER = "/v2/models/waves/infer"
HEAD = b"POST /v2/models/waves/infer HTTP/1.1\r\nHost: localhost\r\n"


def connected(url, room=None):
    parts, found = urlsplit(url), socket.socket()
    found.settimeout(10)
    if room is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    found.connect((parts.hostname, parts.port))
    return found


def seen(client, line, seconds=20):
    """Wait until the metrics have it."""
    until = time.monotonic() + seconds
    while f"{line}\n" not in (text := client.get("/metrics").text):
        assert time.monotonic() < until, text
        time.sleep(0.01)


def said(url, *pieces, pause=0.0):
    """All that comes back until the connection is closed."""
    with connected(url) as sent:
        for piece in pieces:
            sent.sendall(piece)
            time.sleep(pause)
        found = b""
        while piece := sent.recv(1 << 16):
            found += piece
    return found


def status_and_error(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


def test_what_is_no_http_is_answered_in_json(path):
    with running([path]) as url:
        assert status_and_error(said(url, b"HELLO\r\n\r\n"))[0] == 400
        endless = [b"GET / HTTP/1.1\r\n", b"x: " + b"a" * 60_000]
        assert status_and_error(said(url, *endless, pause=0.1))[0] == 400


def test_slow_clients_are_left_and_others_are_answered(path, X):
    with running([path], Limits(seconds=0.4)) as url, ThreadPoolExecutor(4) as pool:
        silent = pool.submit(said, url)
        half_a_head = pool.submit(said, url, HEAD)
        half_a_body = pool.submit(said, url, HEAD + b"Content-Length: 100\r\n\r\n{")
        assert httpx.post(url + INFER, json=question(X[:1])).status_code == 200
        assert silent.result() == half_a_head.result() == b""
        assert status_and_error(half_a_body.result()) == (408, "The request was not whole after 0.4 s.")


def test_a_reader_who_takes_nothing_is_left_and_its_memory_comes_back(path, X):
    body = json.dumps(question(np.tile(X, (300, 1)))).encode()  # an answer of some megabytes
    with running([path], Limits(seconds=0.5)) as url, httpx.Client(base_url=url) as client:
        with connected(url, room=4096) as sent:
            sent.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            seen(client, "pcarann_requests_in_flight 1")
            seen(client, "pcarann_requests_in_flight 0")
        seen(client, "pcarann_bytes_in_flight 0")
        seen(client, 'pcarann_requests_total{route="infer",model="waves",status="499"} 1')
        assert client.post(INFER, json=question(X[:1])).status_code == 200


def test_a_client_who_dies_leaves_nothing_behind(path, X):
    body = json.dumps(question(X)).encode()
    with running([path]) as url, httpx.Client(base_url=url) as client:
        for cut in (10, len(body) // 2, len(body)):
            with connected(url) as sent:
                sent.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:cut])
        seen(client, "pcarann_requests_in_flight 0")
        assert client.post(INFER, json=question(X[:1])).status_code == 200


def test_what_a_client_asked_for_who_went_away_is_not_computed_and_not_counted_as_answered(path, X):
    slow, body = Slow(load(path)), json.dumps(question(X)).encode()
    with running([path], open_model=lambda _: slow) as url, httpx.Client(base_url=url) as client:
        gone = [connected(url) for _ in range(2 * cores() + 3)]
        for sent in gone:
            sent.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        seen(client, f"pcarann_requests_in_flight {len(gone)}")
        for sent in gone:
            sent.close()
        seen(client, "pcarann_requests_in_flight 0")
        seen(client, "pcarann_waiting 0")
        slow.free.set()
        assert client.post(INFER, json=question(X[:1])).status_code == 200
        seen(client, f'pcarann_requests_total{{route="infer",model="waves",status="499"}} {len(gone)}')
        seen(client, 'pcarann_requests_total{route="infer",model="waves",status="200"} 1')


def test_a_body_that_is_too_large_is_refused_before_it_is_read(path, monkeypatch):
    monkeypatch.setattr("pcarann.serving.guards._PAUSE", 0.2)
    with running([path], Limits(body=1000)) as url:
        found = said(url, HEAD + b"Connection: close\r\nContent-Length: 1000000000\r\n\r\n{")
        assert status_and_error(found)[0] == 413
        chunks = b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n"
        assert status_and_error(said(url, HEAD + chunks))[0] == 413


def test_connections_beyond_the_most_are_told(path):
    with running([path], Limits(connections=2)) as url, connected(url), connected(url):
        time.sleep(0.1)
        assert status_and_error(said(url))[0] == 503


@pytest.mark.parametrize("clients", [16])
def test_many_at_a_time_get_their_own_rows(path, model, X, clients):
    with running([path]) as url, httpx.Client(base_url=url) as client, ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda i: arrays(client.post(INFER, json=question(X[i % 30 : i % 30 + 1]))), range(64)))
    for i, one in enumerate(found):
        np.testing.assert_allclose(one["outputs"], model.predict(X[i % 30 : i % 30 + 1]), rtol=1e-9, atol=1e-12)


def test_silent_connections_end_at_the_idle_limit(path):
    with running([path], Limits(idle=0.3)) as url, ThreadPoolExecutor(5) as pool:
        began = time.monotonic()
        silent = [pool.submit(said, url), pool.submit(said, url, HEAD)]
        drop_by_drop = pool.submit(drops, url, HEAD[:8])
        half_a_body = pool.submit(said, url, HEAD + b"Content-Length: 100\r\n\r\n{")
        assert [one.result() for one in silent] == [b"", b""]
        drop_by_drop.result()
        assert status_and_error(half_a_body.result())[0] == 408
        assert time.monotonic() - began < 5


def drops(url, head):
    """Send a head byte by byte until the connection is closed."""
    with connected(url) as sent:
        for i in range(100):
            try:
                sent.sendall(head[i : i + 1] or b"a")
                time.sleep(0.1)
            except OSError:
                return
    raise AssertionError("It was never closed.")


def test_a_body_that_comes_slowly_but_steadily_is_answered(path, X):
    body = json.dumps(question(X[:1])).encode()
    pieces = [body[i : i + 1 + len(body) // 8] for i in range(0, len(body), 1 + len(body) // 8)]
    head = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running([path], Limits(idle=0.6)) as url:
        assert said(url, head, *pieces, pause=0.15).startswith(b"HTTP/1.1 200")


def test_a_request_line_counts_as_head(path):
    with running([path]) as url:
        found = said(url, b"GET /v2?" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert status_and_error(found)[0] in (400, 431)


def test_answers_without_an_application_are_for_own_pages_too(path):
    with running([path]) as url:
        assert b"cross-origin-resource-policy: same-origin" in said(url, b"HELLO\r\n\r\n")
