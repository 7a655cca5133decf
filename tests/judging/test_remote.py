from functools import partial

from judged import RIGHT, request_in, task_in

from lab.judging import remote, work


def _named(name, value):
    return name, value


def test_each_function_is_that_of_the_worker(tmp_path, monkeypatch):
    request = request_in(task_in(tmp_path), "kernel.cu", RIGHT, 3)
    for name in ("prepare", "examine", "try_candidate", "baseline_time"):
        monkeypatch.setattr(work, name, partial(_named, name))
        assert getattr(remote, name)(request) == (name, request)
