import pytest

from pcarann.serving.limits import Admission, Limits, Refused


def test_so_many_requests_are_admitted_and_one_more_when_one_has_left():
    admission = Admission(Limits(requests=2))
    first, _ = admission.enter(0), admission.enter(0)
    with pytest.raises(Refused, match="2 requests are being answered") as found:
        admission.enter(0)
    assert (found.value.status, found.value.headers) == (503, {"Retry-After": "1"})
    first.leave()
    admission.enter(0)


def test_memory_counts_bodies_and_answers_and_comes_back():
    admission = Admission(Limits(memory=100))
    ticket = admission.enter(60)
    with pytest.raises(Refused, match="60 bytes"):
        admission.enter(50)
    assert admission.requests == 1
    ticket.take(40)
    with pytest.raises(Refused):
        ticket.take(1)
    ticket.leave()
    assert (admission.requests, admission.memory) == (0, 0)


@pytest.mark.parametrize(("what", "status"), [("body", 413), ("answer", 413), ("head", 431)])
def test_sizes_are_refused_beyond_the_limit(what, status):
    limits = Limits(body=10, answer=10, header=10)
    refuse = getattr(limits, f"refuse_{what}")
    refuse(10)
    with pytest.raises(Refused, match="10") as found:
        refuse(11)
    assert found.value.status == status
