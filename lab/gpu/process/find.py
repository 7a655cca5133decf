"""Which cards of this machine a run measures on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lab.base.errors import UserError
from lab.gpu.device import describe, residents
from lab.gpu.process.cards import Card
from lab.measured.timing import GpuDescription


def find_cards(*, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
    """Look for the cards to measure on; ``CUDA_VISIBLE_DEVICES`` limits which ones there are.

    Args:
        measure: False does not look, because the user asked for no GPU.
        every: All cards; else the first one.
        model: Part of the name of the cards' model, such as ``H200``; empty where the cards are alike.

    Returns:
        The cards, or none and one sentence that says why.

    Raises:
        UserError: No card is of the model; or `every` card is asked for, and there are several models.
    """
    if not measure:
        return (), "Nothing was measured: --no-gpu was given."
    first = describe.probe()
    if isinstance(first, str):
        return (), first
    if not every and not model:
        return (Card(describe.device_id(0), "", "", _with_clusters(first, 0), "GPU 0"),), ""
    chosen = of_one_model(visible_cards(), model)
    return (chosen if every else chosen[:1]), ""


def visible_cards() -> tuple[Card, ...]:
    """Describe every card that this process sees, in the driver's order.

    Raises:
        RuntimeError: There is no driver.
    """
    number = describe.device_count()
    found = []
    for ordinal in range(number):
        name = describe.device_id(ordinal)
        visible = name if number > 1 else ""  # a single one may be a part of a GPU, which has a name of another kind
        found.append(
            Card(name, "", visible, _with_clusters(describe.describe_device(ordinal), ordinal), f"GPU {ordinal}")
        )
    return tuple(found)


def _with_clusters(description: GpuDescription, ordinal: int) -> GpuDescription:
    """Ask the driver, too, how many clusters of blocks the card holds, which decides grids of `resident_blocks`."""
    return replace(description, clusters=residents.clusters_of(ordinal))


def of_one_model(cards: Sequence[Card], model: str) -> tuple[Card, ...]:
    """Return the cards of a model: times on different models are answers to different questions.

    Args:
        cards: Any cards.
        model: Part of the model's name, in upper or lower case; empty where the cards are alike.

    Raises:
        UserError: No card is of the model, or those that are left are of several.
    """
    left = tuple(card for card in cards if model.lower() in card.description.name.lower())
    names = Counter(card.description.name for card in left or cards)
    there = ", ".join(f"{number} x {name}" for name, number in names.items())
    if not left:
        raise UserError("no GPU is of this model", code="unknown-name", key="--gpu-model", found=model, accepted=there)
    if len(names) > 1:
        raise UserError(
            "a run measures on GPUs of one model, and these are of several",
            code="mismatch",
            key="--gpu-model",
            found=model or there,
            accepted="a part of one name alone: " + ", ".join(names),
            suggestion="a run for each model; `lab compare` holds them side by side",
        )
    return left
