"""The memory of the machine is known, or nothing is said of it."""

import os
from pathlib import Path

import pytest

from pcarann.backend.memory import in_words, machine_bytes


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs Linux")
def test_memory_is_no_more_than_the_system_says():
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < machine_bytes() <= total


def test_a_system_that_does_not_say_has_none(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert machine_bytes() is None


def test_bytes_are_said_in_gigabytes():
    assert in_words(8 * 10**18) == "8,000,000,000 GB"
    assert in_words(1_500_000_000) == "1.5 GB"
