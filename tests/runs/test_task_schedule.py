"""The scheduler by itself: what starts when, what is done once or again, and in which order results come back."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from run_support import InProcess, Later

from lab.base.executor import WorkerLostError
from lab.runs.task_schedule import LaneTask, OrderGate, SerialLane, TaskLane, run_lanes


def square(number):
    return number * number


def task(key, function=square, *args):
    return LaneTask(key, function, args or (key,), 5.0)


def test_one_piece_of_work_follows_another_until_nothing_is_left():
    lane, results = TaskLane(InProcess(), remember=False), []

    def follow(future):
        results.append(future.result())
        if results[-1] < 100:
            lane.submit(task(results[-1]), follow)

    lane.submit(task(2), follow)
    run_lanes([lane])
    assert results == [4, 16, 256]


def test_nothing_to_do_ends_at_once():
    run_lanes([TaskLane(InProcess(), remember=False)])


@pytest.mark.parametrize(("remember", "runs", "answers"), [(True, 1, 3), (False, 2, 2)])
def test_equal_tasks_under_way_run_once_and_later_ones_only_where_they_are_remembered(remember, runs, answers):
    executor, results = Later(), []
    lane = TaskLane(executor, remember=remember)
    for _ in range(2):
        lane.submit(task("same"), lambda future: results.append(future.result()))
    executor.futures[0].set_result("answer")
    lane.ended(*lane.finished(set(executor.futures)))
    assert results == ["answer", "answer"]
    lane.submit(task("same"), lambda future: results.append(future.result()))
    assert len(executor.submitted) == runs
    assert len(results) == answers


def test_a_task_whose_worker_was_killed_runs_once_more_and_no_more():
    executor, errors = Later(), []
    lane = TaskLane(executor, remember=False)
    lane.submit(task("fated"), lambda future: errors.append(str(future.exception())))
    for attempt in range(2):
        assert not errors
        executor.futures[attempt].set_exception(WorkerLostError(f"killed {attempt}", killed=True))
        lane.ended(*lane.finished(set(executor.futures)))
    assert errors == ["killed 1"]
    assert len(executor.submitted) == 2


@pytest.mark.parametrize("error", [WorkerLostError("segmentation fault", killed=False), TimeoutError(), MemoryError()])
def test_a_task_that_fails_by_itself_does_not_run_again(error):
    executor, errors = Later(), []
    lane = TaskLane(executor, remember=False)
    lane.submit(task("bad"), lambda future: errors.append(future.exception()))
    executor.futures[0].set_exception(error)
    run_lanes([lane])
    assert errors == [error]
    assert len(executor.submitted) == 1


def test_time_limits_reach_the_executor():
    executor = InProcess()
    TaskLane(executor, remember=False).submit(task(3), lambda future: None)
    assert executor.submitted == [(square, (3,), 5.0)]


class Line:
    """Serial resources whose jobs the test finishes; the one with the empty name by default."""

    def __init__(self, ahead=2, refused=(), places=("",), *, ordered=True):
        self.started: list[str] = []
        self.at: list[tuple[str, str]] = []
        self.futures: list[Future[None]] = []
        self.ended: list[str] = []
        self.refused, self.places = refused, places
        self.lane = SerialLane(self.start, self.end, places=lambda: self.places, ordered=ordered, ahead=ahead)

    def end(self, item, future):
        self.ended.append(item)

    def start(self, item, place):
        if item in self.refused:
            return None
        self.started.append(item)
        self.at.append((item, place))
        self.futures.append(Future())
        return self.futures[-1]

    def put(self, item, urgency=0.0, group=None):
        self.lane.put(item, urgency=urgency, position=len(item) * 100 + ord(item[-1]), group=group)

    def finish_first(self):
        future = next(iter(self.lane.running))
        future.set_result(None)
        run_lanes_once(self.lane)


def run_lanes_once(lane):
    for future in lane.finished(()):
        lane.ended(future)
    lane.feed()


def test_no_more_than_a_few_are_handed_over_and_the_rest_can_still_be_put_in_order():
    line = Line()
    for item, urgency in (("a", 3.0), ("b", 3.0), ("c", 3.0), ("d", 1.0), ("e", 2.0)):
        line.put(item, urgency)
    assert line.started == ["a", "b"]
    assert line.lane.waiting == 3
    for _ in range(3):
        line.finish_first()
    assert line.started == ["a", "b", "d", "e", "c"]


def test_each_place_is_given_as_many_ahead_and_keeps_to_its_group():
    line = Line(places=("one", "two"))
    for item, group in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "y"), ("f", "y"), ("g", "x")):
        line.put(item, group=group)
    assert line.at == [("a", "one"), ("b", "two"), ("c", "one"), ("d", "two")]  # the first ones before others are there
    for _ in range(3):
        line.finish_first()
    assert line.at[4:] == [("g", "one"), ("e", "two"), ("f", "one")]


def test_which_place_was_quicker_changes_neither_the_order_of_results_nor_what_they_decide(monkeypatch):
    """Of two places, either may be the quicker one: an item is handed over after the same results each time."""
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)):
        line = Line(places=("one", "two"), ahead=1)
        for item in "abcd":
            line.put(item)
        handed_over: list[tuple[str, tuple[str, ...]]] = []
        monkeypatch.setattr(
            line.lane, "_then", lambda item, _, into=handed_over, of=line: into.append((item, (*of.started,)))
        )
        while line.lane.running:
            futures = list(line.lane.running)
            for place in order:
                if place < len(futures):
                    futures[place].set_result(None)
            for future in line.lane.finished(()):
                line.lane.ended(future)
        assert handed_over == [("a", ("a", "b")), ("b", ("a", "b", "c")), ("c", tuple("abcd")), ("d", tuple("abcd"))]


def test_without_an_order_a_result_is_taken_back_when_it_is_there():
    line = Line(places=("one", "two"), ahead=1, ordered=False)
    for item in "abc":
        line.put(item)
    line.futures[1].set_result(None)
    run_lanes_once(line.lane)
    assert (line.ended, line.started, line.at[-1]) == (["b"], ["a", "b", "c"], ("c", "two"))


def test_a_place_that_is_lost_gets_nothing_more_and_a_new_one_does():
    line = Line(places=("one", "two"), ahead=1, ordered=False)
    for item in "abcd":
        line.put(item)
    line.places = ("two", "three")
    run_lanes_once(line.lane)
    assert line.at == [("a", "one"), ("b", "two"), ("c", "three")]
    line.futures[0].set_result(None)  # another place did it
    run_lanes_once(line.lane)
    assert (line.ended, line.lane.waiting) == (["a"], 1)


def test_items_of_the_group_that_started_last_go_first_whatever_their_urgency():
    line = Line(ahead=1)
    line.put("a", 5.0, group="x")
    for item, urgency, group in (("b", 1.0, "y"), ("c", 9.0, "x"), ("d", 8.0, "x"), ("e", 0.0, "y")):
        line.put(item, urgency, group)
    for _ in range(4):
        line.finish_first()
    assert line.started == ["a", "d", "c", "e", "b"]


def test_equally_urgent_items_keep_their_positions():
    line = Line(ahead=1)
    for item in ("a", "d", "b", "c"):
        line.put(item)
    for _ in range(3):
        line.finish_first()
    assert line.started == ["a", "b", "c", "d"]


def test_an_item_that_is_not_needed_any_more_gives_its_place_to_the_next():
    line = Line(ahead=1, refused={"a", "b"})
    for item in ("a", "b", "c"):
        line.put(item)
    assert line.started == ["c"]


def test_results_come_back_in_the_order_of_the_line_even_where_a_later_one_is_named_first():
    line = Line()
    line.put("a")
    line.put("b")
    first, second = line.futures
    second.set_result(None)
    assert line.lane.finished({second}) == []
    first.set_result(None)
    assert line.lane.finished({second}) == [first, second]


def test_a_resource_that_is_gone_gives_back_what_waits_in_order():
    line = Line(ahead=1)
    for item, urgency in (("a", 0.0), ("b", 2.0), ("c", 1.0)):
        line.put(item, urgency)
    assert line.lane.give_up() == ["c", "b"]
    assert line.lane.waiting == 0
    assert line.lane.give_up() == []


def test_ctrl_c_in_a_result_leaves_the_loop():
    lane = TaskLane(InProcess(), remember=False)

    def press(future):
        raise KeyboardInterrupt

    lane.submit(task(1), press)
    with pytest.raises(KeyboardInterrupt):
        run_lanes([lane])


def test_lanes_are_fed_from_the_last_step_to_the_first_and_drained_from_the_first():
    fed, ended = [], []

    class Once:
        def __init__(self, name):
            self.name, self.running = name, []

        def feed(self):
            fed.append(self.name)
            if len(fed) <= 2:
                future: Future[None] = Future()
                future.set_result(None)
                self.running.append(future)

        def finished(self, done):
            return [future for future in self.running if future in done]

        def ended(self, future):
            self.running.remove(future)
            ended.append(self.name)

    run_lanes([Once("build"), Once("measure")])
    assert fed == ["measure", "build", "measure", "build"]
    assert ended == ["build", "measure"]


def test_a_gate_holds_back_what_is_not_next():
    gate: OrderGate[str] = OrderGate(ordered=True)
    for position, released in ((2, []), (1, []), (0, ["0", "1", "2"]), (4, []), (3, ["3", "4"])):
        gate.hold(position, str(position))
        assert gate.release() == released


def test_an_open_gate_lets_everything_through_in_order():
    gate: OrderGate[int] = OrderGate(ordered=False)
    for position in (7, 3, 5):
        gate.hold(position, position)
    assert gate.release() == [3, 5, 7]
    assert gate.release() == []


class Heard(Future[None]):
    """A future that counts who listens to it."""

    listeners = 0

    def add_done_callback(self, fn):
        Heard.listeners += 1
        super().add_done_callback(fn)


def test_each_future_is_listened_to_once_however_many_turns_it_is_under_way():
    Heard.listeners = 0
    waiting = [Heard() for _ in range(50)]
    line: SerialLane[Heard] = SerialLane(lambda future, _: future, lambda *_: finish(), ahead=50)

    def finish():
        for future in waiting:
            if not future.done():
                future.set_result(None)
                return

    for number, future in enumerate(waiting):
        line.put(future, urgency=0.0, position=number, group=None)
    finish()
    run_lanes([line])
    assert all(future.done() for future in waiting)
    assert Heard.listeners == len(waiting)


def test_a_result_that_waits_for_an_earlier_one_does_not_keep_the_loop_busy():
    turns: list[int] = []
    futures = [Future[None](), Future[None]()]
    lane: SerialLane[int] = SerialLane(lambda number, _: futures[number], lambda *_: None)

    class Counting:
        running = ()

        def feed(self):
            turns.append(len(turns))
            if len(turns) == 2:  # the later one is known to be done, and the earlier one is not
                futures[0].set_result(None)

        def finished(self, done):
            return []

        def ended(self, future):
            raise AssertionError(future)

    lane.put(0, urgency=0.0, position=0, group=None)
    lane.put(1, urgency=0.0, position=1, group=None)
    futures[1].set_result(None)
    run_lanes([lane, Counting()])
    assert len(turns) == 3


def test_what_is_remembered_is_not_kept_in_memory():
    executor = InProcess()
    lane, results = TaskLane(executor, remember=True), []
    for _ in range(2):
        lane.submit(task("long", str.upper, "text " * 1000), lambda future: results.append(future.result()))
        run_lanes([lane])
    assert len(executor.submitted) == 1
    assert results[0] == results[1]
    assert results[0] is not results[1]
