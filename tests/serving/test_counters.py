import re

from pcarann.serving.counters import Counter, Counters, Histogram, gauge_text

LINE = re.compile(r'[a-z_]+(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? [0-9.e+-]+')


def test_a_counter_is_written_as_prometheus_reads_it():
    counter = Counter("hits_total", "Hits.", ("who",))
    counter.add("b")
    counter.add('a"\n\\', by=2.5)
    assert counter.text().splitlines() == [
        "# HELP hits_total Hits.",
        "# TYPE hits_total counter",
        'hits_total{who="a\\"\\n\\\\"} 2.5',
        'hits_total{who="b"} 1',
    ]


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram("t", "Times.", (0.5, 1))
    for value in (0.25, 0.5, 0.75, 4.0):
        histogram.add(value)
    assert histogram.text().splitlines()[2:] == [
        't_bucket{le="0.5"} 2',
        't_bucket{le="1"} 3',
        't_bucket{le="+Inf"} 4',
        "t_sum 5.5",
        "t_count 4",
    ]


def test_a_gauge_without_labels_is_a_name_and_a_number():
    assert gauge_text("now", "Now.", {(): 3}).splitlines()[2:] == ["now 3"]


def test_all_lines_of_a_server_have_the_format_and_every_family_stands_once():
    counters = Counters()
    counters.requests.add("infer", "m", "200")
    counters.batch(3, 7, 0.002)
    counters.reloaded("m", False)
    counters.gauges.append(lambda: gauge_text("now", "Now.", {(): 3}))
    lines = counters.text().splitlines()
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families)) == 11
    assert 'pcarann_reloads_total{model="m",result="failed"} 1' in lines
    assert 'pcarann_batch_samples_bucket{le="8"} 1' in lines
