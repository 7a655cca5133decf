"""The largest value of an index under the conditions of an access, as a polynomial of sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.isa.cuda.body.polynomials import ONE, ZERO, Monomial, Polynomial, atom, number
from lab.isa.cuda.body.symbolic_values import BLOCK, BLOCK_SIDES, GRID_SIDES, THREAD, IndexBound, Opaque

_MOST_STEPS = 24
_DEEPEST = 4
_SAMPLES = ((1009, 17, 32), (4099, 13, 64))


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an index that a condition bounds.

    Attributes:
        stride: Elements between two of its values.
        upper: Its largest value.
    """

    stride: Polynomial
    upper: Polynomial


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest value of an index.

    Attributes:
        value: It.
        steps: The parts of the index; empty where the index is not a sum of bounded parts.
        is_assumed: It rests on an assumption, as that a tile's width divides a size.
    """

    value: Polynomial
    steps: tuple[Step, ...]
    is_assumed: bool = False


class Limits:
    """Bounds polynomials over the atoms of one kernel."""

    def __init__(self, opaque: Mapping[str, Opaque], parameters: Collection[str] = ()) -> None:
        """Begin.

        Args:
            opaque: The kernel's atoms.
            parameters: Names of the experiment's parameters, which are small numbers beside sizes.
        """
        self._opaque = dict(opaque)
        self._parameters = set(parameters)
        self.sides: dict[str, Polynomial] = {}
        self._names: dict[tuple[str, Polynomial, Polynomial], str] = {
            (meaning.operation, *meaning.operands): name  # type: ignore[misc]
            for name, meaning in opaque.items()
            if meaning.operation
        }

    def add_parameters(self, names: Iterable[str]) -> None:
        """Add names of the experiment's parameters."""
        self._parameters.update(names)

    def hold_contents(self, array: str, largest: Polynomial) -> None:
        """Let an array of integers hold numbers from 0 to the largest."""
        for name, meaning in list(self._opaque.items()):
            if meaning.array == array:
                self._opaque[name] = replace(meaning, uppers=(largest,), lower=ZERO)

    def meaning(self, name: str) -> Opaque | None:
        """Return the meaning of an atom."""
        return self._opaque.get(name)

    def is_terminal(self, name: str) -> bool:
        """Return whether an atom is the same for all threads and turns."""
        if name in THREAD or name in BLOCK or name.startswith("@"):
            return False
        meaning = self._opaque.get(name)
        return meaning is None or bool(
            meaning.operation and all(self.is_fixed(operand) for operand in meaning.operands)
        )

    def is_fixed(self, value: Polynomial) -> bool:
        """Return whether a polynomial is the same for all threads and turns."""
        return all(map(self.is_terminal, value.atoms))

    def operation(self, kind: str, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return a quotient, rounded down (`/`) or up (`ceil`), or a remainder (`%`)."""
        if kind != "%" and (exact := left.quotient(right)) is not None:
            return exact
        a, b = left.number, right.number
        if a is not None and b:
            return number(-(-a // b) if kind == "ceil" else a // b if kind == "/" else a % b)
        key = (kind, left, right)
        if key not in self._names:
            self._names[key] = f"#{len(self._opaque)}"
            self._opaque[self._names[key]] = Opaque(lower=ZERO, operation=kind, operands=(left, right))
        return atom(self._names[key])

    def substitute(self, value: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
        """Return a polynomial with atoms replaced, those in quotients and remainders, too."""
        inner = dict(values)
        for name in sorted(value.atoms):
            meaning = self._opaque.get(name)
            if meaning is None or name in inner or not meaning.operation:
                continue
            operands = [self.substitute(operand, values) for operand in meaning.operands]
            if tuple(operands) != meaning.operands:
                inner[name] = self._again(meaning, operands)
        return value.substitute(inner)

    def _again(self, meaning: Opaque, operands: Sequence[Polynomial]) -> Polynomial:
        if all(map(self.is_fixed, operands)):
            return self.operation(meaning.operation, operands[0], operands[1])
        key = (meaning.operation, operands[0], operands[1])
        if key not in self._names:
            self._names[key] = f"#{len(self._opaque)}"
            uppers = (operands[1] - ONE,) if meaning.operation == "%" else ()
            self._opaque[self._names[key]] = replace(meaning, operands=tuple(operands), uppers=uppers)
        return atom(self._names[key])

    def replace_all(self, values: Mapping[str, Polynomial]) -> None:
        """Replace atoms in what is known of other atoms."""
        for name, meaning in list(self._opaque.items()):
            self._opaque[name] = replace(
                meaning,
                uppers=tuple(self.substitute(upper, values) for upper in meaning.uppers),
                choices=tuple(self.substitute(choice, values) for choice in meaning.choices),
                step=self.substitute(meaning.step, values) if meaning.step is not None else None,
            )

    def sample(self, value: Polynomial, of: int) -> int:
        """Return the value of a polynomial at sample sizes, to compare polynomials."""
        size, side, block = _SAMPLES[of]
        values = {}
        for at, name in enumerate(sorted(value.atoms)):
            meaning = self._opaque.get(name)
            if meaning is not None and meaning.operation:
                left, right = (self.sample(operand, of) for operand in meaning.operands)
                right = right or 1
                values[name] = {"/": left // right, "ceil": -(-left // right), "%": left % right}[meaning.operation]
            elif name in BLOCK_SIDES or name in self._parameters:
                values[name] = block
            else:
                values[name] = side if name in GRID_SIDES else size + 4 * at
        return value.evaluate(values)

    def is_positive(self, value: Polynomial) -> bool:
        """Return whether a polynomial is positive at sample sizes."""
        return all(self.sample(value, of) > 0 for of in range(len(_SAMPLES)))

    def larger(self, first: Polynomial, second: Polynomial) -> Polynomial | None:
        """Return the larger one of two polynomials; None where that depends on the sizes."""
        quotients = [self._quotient(value) for value in (first, second)]
        if quotients[0] and quotients[1] and quotients[0][1] == quotients[1][1]:
            winner = self.larger(quotients[0][0], quotients[1][0])
            return None if winner is None else first if winner == quotients[0][0] else second
        signs = {self.sample(first - second, of) >= 0 for of in range(len(_SAMPLES))}
        return None if len(signs) > 1 else first if signs.pop() else second

    def _quotient(self, value: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """Return the operands of a polynomial that is one quotient, rounded up."""
        meaning = self._opaque.get(next(iter(value.atoms), "")) if len(value.terms) == 1 and value.degree == 1 else None
        if meaning is None or meaning.operation != "ceil" or 1 not in value.terms.values():
            return None
        return meaning.operands[0], meaning.operands[1]

    def largest(self, index: Polynomial, bounds: Sequence[IndexBound], depth: int = 0) -> Largest | None:
        """Return the largest value of an index; None where nothing bounds it."""
        rest, steps, is_assumed, is_clean = index, list[Step](), False, True
        known = [bound for own in bounds for bound in self.widened(own)]
        for _ in range(_MOST_STEPS):
            live = self._live(rest)
            if not live:
                return Largest(rest, tuple(steps) if is_clean else (), is_assumed)
            best = self._best(rest, len(live), [*known, *self._own_bounds(rest, known, depth)])
            if best is None:
                return self._chosen(rest, bounds, depth)
            rest, step, bound = best
            is_assumed |= bound.is_assumed
            if step is None:
                is_clean = False
            else:
                steps.append(step)
        return None

    def _live(self, value: Polynomial) -> list[Monomial]:
        return [monomial for monomial in value.terms if not all(map(self.is_terminal, monomial))]

    def widened(self, bound: IndexBound) -> Iterator[IndexBound]:
        """Yield a bound and those that follow from it: `x / y < m` says that `x < y * m`."""
        yield bound
        if bound.excess is None:
            return
        for name in sorted(bound.excess.atoms):
            meaning = self._opaque.get(name)
            if meaning is None or meaning.operation != "/" or self.is_terminal(name):
                continue
            rest = bound.excess - atom(name)
            if name not in rest.atoms and self.is_fixed(rest):
                left, right = meaning.operands
                yield replace(bound, excess=left + right * rest - right + ONE)

    def _best(
        self, rest: Polynomial, live: int, bounds: Sequence[IndexBound]
    ) -> tuple[Polynomial, Step | None, IndexBound] | None:
        """Return what remains of an index by the bound that removes most of it."""
        best: tuple[tuple[int, int], tuple[Polynomial, Step | None, IndexBound]] | None = None
        for place, bound in enumerate(bounds):
            if bound.excess is None:
                continue
            for pivot in self._live(bound.excess):
                factor = rest.coefficient(pivot).quotient(number(bound.excess.terms[pivot]))
                if factor is None or not factor.terms or not self.is_fixed(factor) or not self.is_positive(factor):
                    continue
                left = rest - factor * bound.excess
                remaining = len(self._live(left))
                if remaining > live or (remaining == live and not self._descends(pivot, rest, left)):
                    continue
                fixed = bound.excess.select(lambda monomial: all(map(self.is_terminal, monomial)))
                removed = self._live(bound.excess)
                is_whole = live - remaining == len(removed)
                step = Step(factor, -fixed) if is_whole else None
                key = (remaining, place)
                if best is None or key < best[0]:
                    best = key, (left, step, bound)
        return best[1] if best else None

    def _descends(self, pivot: Monomial, before: Polynomial, after: Polynomial) -> bool:
        """Return whether a loop's variable gives way to indices of threads and blocks."""
        added = {name for monomial in self._live(after - before) if monomial in after.terms for name in monomial}
        return (
            pivot not in after.terms
            and any(name.startswith(("@", "#")) for name in pivot)
            and all(self.is_terminal(name) or name in THREAD or name in BLOCK for name in added)
        )

    def _own_bounds(self, rest: Polynomial, known: Sequence[IndexBound], depth: int) -> Iterator[IndexBound]:
        """Yield bounds that atoms have by themselves: the sides of a block, the divisor of a remainder."""
        for name in sorted(rest.atoms):
            if self.is_terminal(name):
                continue
            item, line = atom(name), 0
            if name in THREAD or name in BLOCK:
                side = (BLOCK_SIDES if name in THREAD else GRID_SIDES)["xyz".index(name[-1])]
                yield IndexBound(item - self.sides.get(side, atom(side)) + ONE, line)
                yield IndexBound(-item, line)
                continue
            meaning = self._opaque[name]
            for upper in meaning.uppers:
                yield IndexBound(item - upper, line)
            if meaning.lower is not None:
                yield IndexBound(meaning.lower - item, line)
            if meaning.operation in ("/", "ceil") and depth < _DEEPEST:
                yield from self._of_quotient(name, meaning, known, depth)

    def _of_quotient(self, name: str, meaning: Opaque, known: Sequence[IndexBound], depth: int) -> Iterator[IndexBound]:
        left, right = meaning.operands
        largest = self.largest(left, known, depth + 1)
        if largest is not None and self.is_fixed(right):
            upper = (largest.value + ONE).quotient(right)
            upper = upper - ONE if upper is not None else self.operation("/", largest.value, right)
            yield IndexBound(atom(name) - upper, 0, is_assumed=largest.is_assumed)

    def _chosen(self, rest: Polynomial, bounds: Sequence[IndexBound], depth: int) -> Largest | None:
        """Return the largest value over what an atom may be, as behind an `if`."""
        for name in sorted(rest.atoms):
            meaning = self._opaque.get(name)
            if meaning is None or not (meaning.choices or meaning.uppers) or depth >= _DEEPEST:
                continue
            options = meaning.choices or meaning.uppers
            found = [self.largest(rest.substitute({name: option}), bounds, depth + 1) for option in options]
            values = [one for one in found if one is not None]
            if not values or (meaning.choices and len(values) < len(found)):
                continue
            best = values[0]
            for other in values[1:]:
                winner = self.larger(best.value, other.value)
                is_other = winner == other.value if meaning.choices else winner != other.value
                best = other if is_other else best
            return replace(best, steps=best.steps if len(set(values)) == 1 else ())
        return None
