"""Workers that die in the middle of their work."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

from distributed import Client, WorkerPlugin


class Deadly(WorkerPlugin):
    """Kill −9 the worker that is the first to begin a task of one of these names, once for each."""

    def __init__(self, tasks, folder):
        self.name, self.tasks, self.folder = "deadly", tasks, folder

    def setup(self, worker):
        """Nothing to be done."""

    def transition(self, key, start, finish, **_):
        """Die where it is time to."""
        task = str(key).split("-")[0]
        if finish == "executing" and task in self.tasks and task not in os.listdir(self.folder):
            open(os.path.join(self.folder, task), "x").close()
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def killed_in(cluster, tasks, folder):
    """Kill a worker in each of these tasks inside a `with` block, and see at its end that it was done."""
    folder.mkdir()
    with Client(cluster) as client:
        client.register_plugin(Deadly(tasks, str(folder)))
        try:
            yield
        finally:
            client.unregister_worker_plugin("deadly")
    assert sorted(os.listdir(folder)) == sorted(tasks)
