"""Find the cards of this machine that a run measures on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lab.base.errors import UserError
from lab.gpu.device import describe, residents
from lab.gpu.process.cards import Card
from lab.measured.timing import GpuDescription


def find_cards(*, measure: bool, every: bool = False, model: str = "") -> tuple[tuple[Card, ...], str]:
    """Find the cards to measure on, among those in ``CUDA_VISIBLE_DEVICES``.

    Args:
        measure: False if the user asked for no GPU; then no card is looked for.
        every: Return all cards, not only the first.
        model: Part of the name of the cards' model, such as ``H200``; empty where the cards are alike.

    Returns:
        The cards, or none and one sentence that says why.

    Raises:
        UserError: No card matches the model, or `every` is set and the cards are of several models.
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
    cards = []
    for ordinal in range(number):
        name = describe.device_id(ordinal)
        visible = name if number > 1 else ""  # a single one may be a part of a GPU, which has a name of another kind
        cards.append(
            Card(name, "", visible, _with_clusters(describe.describe_device(ordinal), ordinal), f"GPU {ordinal}")
        )
    return tuple(cards)


def _with_clusters(description: GpuDescription, ordinal: int) -> GpuDescription:
    """Add the card's maximum resident clusters, which determine grids of `resident_blocks`."""
    return replace(description, clusters=residents.clusters_of(ordinal))


def of_one_model(cards: Sequence[Card], model: str) -> tuple[Card, ...]:
    """Return the cards of one model, since times on different models are not comparable.

    Args:
        cards: Any cards.
        model: Part of the model's name, in upper or lower case; empty where the cards are alike.

    Raises:
        UserError: No card matches the model, or the matching cards are of several models.
    """
    matching = tuple(card for card in cards if model.lower() in card.description.name.lower())
    names = Counter(card.description.name for card in matching or cards)
    listed = ", ".join(f"{number} x {name}" for name, number in names.items())
    if not matching:
        raise UserError(
            "no GPU matches this model", code="unknown-name", key="--gpu-model", found=model, accepted=listed
        )
    if len(names) > 1:
        raise UserError(
            "a run needs GPUs of one model; these are of several models",
            code="mismatch",
            key="--gpu-model",
            found=model or listed,
            accepted="part of a name that only one model has: " + ", ".join(names),
            suggestion="start one run per model; `lab compare` compares them",
        )
    return matching
