import subprocess
import sys


def test_importing_takes_under_half_a_second_and_no_torch():
    code = (
        "import sys, time\n"
        "start = time.perf_counter()\n"
        "import pcarann\n"
        "print(time.perf_counter() - start, 'torch' in sys.modules)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    seconds, torch = zip(*(run.stdout.split() for run in runs), strict=True)
    assert min(map(float, seconds)) < 0.5
    assert set(torch) == {"False"}


def test_fitting_on_numpy_imports_no_torch():
    code = (
        "import sys, numpy as np\n"
        "from pcarann import PCARaNN\n"
        "PCARaNN(widths=(5, 5), n_members=1).fit(np.eye(9), np.eye(9))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_the_public_names_are_there():
    import pcarann

    assert {"PCARaNN", "load", "ModelFileError", "Band"} <= set(dir(pcarann))
    for name in pcarann.__all__:
        assert getattr(pcarann, name).__doc__
