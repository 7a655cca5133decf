"""The checks of `lab.stages.conditions` with two executions instead of four: for kernels that should pass all of them.

The stage tries each condition by itself, to name the cause. A second launch on other inputs and in another order fails
where any of the three matters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lab.recorded.run_records import Condition, Suspicion
from lab.stages import conditions as stage
from lab.stages.conditions import Judged


def _launched_again(judged: Judged) -> Suspicion | None:
    """Launch a kernel a second time, on other inputs and in another order of blocks and warps if that matters."""
    inputs = judged.computed.inputs(judged.problem, judged.seed + 1)
    variant = replace(judged, reference=judged.computed.reference(judged.problem, inputs))
    ordered = any(program.depends_on_order for program in stage._programs(judged))
    mode = replace(judged.how, schedule=stage._ORDERS[0]) if ordered else judged.how
    outcome = stage._again(variant, mode, judged.memory.with_inputs(inputs))
    return stage._suspicion(Condition.SECOND_LAUNCH, "wrong in the second launch", outcome)


def _ordered(judged: Judged) -> Suspicion | None:
    """Execute a kernel in the orders that its second launch did not have."""
    relaunched = stage._matters(Condition.SECOND_LAUNCH, judged, list(stage._programs(judged)))
    for seed in stage._ORDERS[relaunched:]:
        outcome = stage._again(judged, replace(judged.how, schedule=seed))
        if suspicion := stage._suspicion(Condition.ORDER, "wrong in another order", outcome):
            return suspicion
    return None


_OWN: Final = {Condition.SECOND_LAUNCH: _launched_again, Condition.ORDER: _ordered}
QUICKER: Final = tuple((condition, _OWN.get(condition, check)) for condition, check in stage._CHECKS)
"""In place of `lab.stages.conditions._CHECKS`."""
