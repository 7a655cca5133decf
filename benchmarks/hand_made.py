"""Mistakes that people thought of: each must be seen by the test named beside it (`docs/explanation/mutation.md`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake.

    Attributes:
        what: In words.
        file: Below the repository.
        before: Text that is in it once.
        after: What stands there instead.
        test: The test that fails.
    """

    what: str
    file: str
    before: str
    after: str
    test: str


HAND_MADE: tuple[Mistake, ...] = (
    Mistake(
        "samples that do not count enter the bootstrap",
        "lab/runs/compare.py",
        "used = np.asarray(samples.used)",
        "used = np.asarray(samples.ms)",
        "tests/runs/test_compare.py::test_samples_that_do_not_count_are_in_neither_the_ratio_nor_its_interval",
    ),
    Mistake(
        "a sequence's share of the bandwidth is inverted",
        "lab/predict/bounds.py",
        "share = bytes_needed / total if total else 1.0",
        "share = total / bytes_needed if total else 1.0",
        "tests/predict/test_bounds.py::test_a_sequence_reaches_the_share_of_the_bandwidth_that_its_needed_bytes_have",
    ),
    Mistake(
        "the main launch counts as overhead",
        "lab/stages/record.py",
        "sum(step.bytes_moved or 0 for step in launches.steps if step is not launches.main)",
        "sum(step.bytes_moved or 0 for step in launches.steps)",
        "tests/stages/test_record.py::test_only_the_launches_beside_the_main_one_are_overhead",
    ),
    Mistake(
        "the tolerated loss is a sum, not a mean",
        "lab/library/tree.py",
        "if node.lost <= tolerance * len(node.points) and",
        "if node.lost <= tolerance and",
        "tests/library/test_tree.py::test_the_tolerance_is_of_the_mean_loss_not_of_the_sum",
    ),
    Mistake(
        "doubt makes a kernel faster",
        "lab/library/interpolation.py",
        "np.exp(explained + _DOUBT",
        "np.exp(explained - _DOUBT",
        "tests/library/test_interpolation.py::test_far_from_all_measured_sizes_a_kernel_is_taken_to_be_slower",
    ),
    Mistake(
        "the writer goes on after a failure",
        "lab/store/writer.py",
        "        if self._failed:\n            return\n",
        "",
        "tests/store/test_writer.py::test_what_stood_in_the_queue_behind_a_failure_is_not_done",
    ),
    Mistake(
        "drift is noted within one worker",
        "lab/runs/baseline_checks.py",
        "if before == worker or abs(change) <= DRIFT:",
        "if abs(change) <= DRIFT:",
        "tests/runs/test_baseline_checks.py::test_scatter_within_one_worker_and_other_problems_are_not_drift",
    ),
    Mistake(
        "a killed task is repeated without end",
        "lab/runs/task_schedule.py",
        "error.killed and not started.repeated",
        "error.killed",
        "tests/runs/test_task_schedule.py::test_a_task_whose_worker_was_killed_runs_once_more_and_no_more",
    ),
    Mistake(
        "a killed build is repeated without end",
        "lab/stages/batches.py",
        "error.killed and not batch[0].repeated",
        "error.killed",
        "tests/stages/test_batches.py::test_a_build_whose_worker_was_killed_is_made_once_more",
    ),
    Mistake(
        "a killed job is repeated without end",
        "lab/gpu/process/session.py",
        "error.killed and not again and not self._closed",
        "error.killed and not self._closed",
        "tests/gpu/process/test_session.py::test_a_job_over_which_two_workers_are_killed_fails",
    ),
    Mistake(
        "empty requests stay in a mapping's traffic",
        "lab/templates/mapping/traffic.py",
        "return by_warp[(by_warp >= 0).any(axis=1)]",
        "return by_warp",
        "tests/templates/mapping/test_traffic.py::test_a_warp_that_touches_nothing_with_one_index_makes_no_request",
    ),
    Mistake(
        "the end guard ignores the offset",
        "lab/templates/mapping/mapping_facts.py",
        "len(owners) < mapping.offset + mapping.size",
        "len(owners) < mapping.size",
        "tests/templates/mapping/test_mapping_facts.py::test_an_offset_moves_the_end_that_needs_a_guard",
    ),
    Mistake(
        "a reference is executed again for each variant",
        "lab/stages/emulate.py",
        "@lru_cache(maxsize=4)\n",
        "",
        "tests/stages/test_emulate.py::test_a_reference_is_executed_once_for_all_variants_that_are_compared_with_it",
    ),
    Mistake(
        "finished tasks are forgotten",
        "lab/runs/task_schedule.py",
        "        if self._remember:\n"
        "            self._answers[started.task.key] = (None if error else future.result(), error)\n",
        "",
        "tests/runs/test_task_schedule.py::test_equal_tasks_under_way_run_once_and_later_ones_only_where_they_are_remembered",
    ),
    Mistake(
        "emulations of equal tasks are not remembered",
        "lab/runs/sweep.py",
        "remember=len(context.experiment.problems) > 1",
        "remember=False",
        "tests/runs/test_sweep.py::test_problems_with_equal_emulations_are_executed_once",
    ),
    Mistake(
        "the lower margin counts as the same",
        "lab/runs/compare.py",
        "low > 1 - SAME and",
        "low >= 1 - SAME and",
        "tests/runs/test_compare.py::test_where_one_verdict_ends_and_the_next_begins",
    ),
    Mistake(
        "the upper margin counts as the same",
        "lab/runs/compare.py",
        "and high < 1 + SAME",
        "and high <= 1 + SAME",
        "tests/runs/test_compare.py::test_where_one_verdict_ends_and_the_next_begins",
    ),
    Mistake(
        "an interval from 1 counts as faster",
        "lab/runs/compare.py",
        "if low > 1:",
        "if low >= 1:",
        "tests/runs/test_compare.py::test_where_one_verdict_ends_and_the_next_begins",
    ),
    Mistake(
        "an interval up to 1 counts as slower",
        "lab/runs/compare.py",
        "if high < 1 else",
        "if high <= 1 else",
        "tests/runs/test_compare.py::test_where_one_verdict_ends_and_the_next_begins",
    ),
    Mistake(
        "a loss of just the threshold is a regression",
        "lab/runs/compare.py",
        "self.ratio < 1 - threshold",
        "self.ratio <= 1 - threshold",
        "tests/runs/test_compare.py::test_a_change_of_exactly_the_threshold_is_no_regression",
    ),
    Mistake(
        "a ceiling at the limit is pruned",
        "lab/search/pruning.py",
        "if rate < self.rules.below_prediction * best:",
        "if rate <= self.rules.below_prediction * best:",
        "tests/search/test_pruning.py::test_a_ceiling_at_a_limit_is_not_below_it",
    ),
    Mistake(
        "a ceiling as high as the best time is overtaken",
        "lab/search/pruning.py",
        "ceiling >= reached",
        "ceiling > reached",
        "tests/search/test_pruning.py::test_a_ceiling_at_a_limit_is_not_below_it",
    ),
    Mistake(
        "a search remembers the last throughput, not the best",
        "lab/search/pruning.py",
        "max(finished.rate, self.measured.get(finished.group, 0.0))",
        "finished.rate",
        "tests/search/test_pruning.py::test_the_best_of_each_group_counts_not_the_last",
    ),
    Mistake(
        "a search compares with the last ceiling, not the best",
        "lab/search/pruning.py",
        "max(rate, self.predicted.get(group, 0.0))",
        "rate",
        "tests/search/test_pruning.py::test_the_best_of_each_group_counts_not_the_last",
    ),
)
