"""Selection of an experiment's kernel in a source, and its C++ expression for one variant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar
from lab.isa.cuda.kernels import SourceKernel

_PLACE = re.compile(r"\{\s*([A-Za-z_]\w*)\s*\}")


def choose(
    kernels: Sequence[SourceKernel],
    requested: str | None,
    *,
    at: Location | None = None,
    key: str = "kernel",
    source: str | None = None,
) -> tuple[SourceKernel, ...]:
    """Return the candidate kernels of an experiment: one, or overloads of one name.

    Args:
        kernels: The source's kernels.
        requested: What the experiment says: `add`, `ns::add<float, {block}>`; None where it says nothing.
        at: Where it says so.
        key: The key under which it does.
        source: The source's name, where `at` is in another file.

    Returns:
        Empty where the source's reader found no kernel, as in a file that writes its kernels by macros.

    Raises:
        UserError: There is no such kernel, or it must be named.
    """
    names = list(dict.fromkeys(kernel.qualified_name for kernel in kernels))
    if requested is None:
        if len(names) != 1:
            raise UserError(
                "the source has several kernels; name one" if names else "no kernel was found in the source",
                code="duplicate",
                at=at,
                key=key,
                found=source,
                accepted=", ".join(dict.fromkeys(kernel.title for kernel in kernels))
                or "a function declared __global__; where a macro or an included file writes it, its name",
            )
        return tuple(kernels)
    base = re.sub(r"\s", "", requested.partition("<")[0]).removeprefix("::")
    matching = tuple(kernel for kernel in kernels if base == kernel.qualified_name)
    if not matching and kernels:
        last = [name for name in names if name.rpartition("::")[2] == base.rpartition("::")[2]]
        raise UserError(
            "the source has no such kernel",
            code="unknown-name",
            at=at,
            key=key,
            found=requested,
            accepted=", ".join(dict.fromkeys(kernel.title for kernel in kernels)),
            suggestion=f"did you mean {last[0]!r}?" if last else did_you_mean(base, names),
        )
    return matching


def expression(
    kernel: SourceKernel | None,
    requested: str | None,
    parameters: Mapping[str, Scalar],
    *,
    at: Location | None = None,
    key: str = "kernel",
) -> str:
    """Return the C++ expression of a kernel for one variant: `ns::add<float, 128>`.

    Parameters in braces are replaced by their values. A template that is named without arguments takes each argument
    from the parameter of its name, and may leave out those with defaults at the end.

    Args:
        kernel: The kernel, or None where the source's reader did not find it.
        requested: What the experiment says; None where it says nothing.
        parameters: The variant's parameters.
        at: Where the experiment names the kernel.
        key: The key under which it does.

    Raises:
        UserError: A parameter in braces does not exist, or a template lacks an argument.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in parameters:
            raise UserError(
                "the kernel's name refers to a parameter that does not exist",
                code="unknown-name",
                at=at,
                key=key,
                found=f"{{{match[1]}}}",
                accepted=list(parameters) or "a parameter",
                suggestion=did_you_mean(match[1], parameters),
            )
        return _written(parameters[match[1]])

    if requested is not None and ("<" in requested or kernel is None or kernel.template is None):
        return _PLACE.sub(value, requested)
    if kernel is None:
        raise UserError("no kernel was found in the source; name it", code="nothing-left", at=at, key=key)
    if kernel.template is None:
        return kernel.qualified_name
    return f"{kernel.qualified_name}<{', '.join(_arguments(kernel, parameters, at, key))}>"


def _arguments(kernel: SourceKernel, parameters: Mapping[str, Scalar], at: Location | None, key: str) -> list[str]:
    arguments: list[str] = []
    for parameter in kernel.template or ():
        if parameter.name in parameters:
            arguments.append(_written(parameters[parameter.name]))
        elif parameter.default is not None or "..." in parameter.kind:
            break  # what follows has defaults, too
        else:
            raise UserError(
                f"the kernel is a template, and nothing says what stands for {parameter.name or parameter.kind}",
                code="missing-key",
                at=at,
                key=key,
                found=kernel.title,
                accepted=f"{kernel.qualified_name}<float, {{block_size}}>, for example, or parameters of these names",
            )
    unset = [parameter.name for parameter in (kernel.template or ())[len(arguments) :] if parameter.name in parameters]
    if unset:
        raise UserError(
            f"the template's argument {unset[0]} follows one that no parameter sets",
            code="missing-key",
            at=at,
            key=key,
            found=kernel.title,
            accepted=f"all arguments: {kernel.qualified_name}<…>",
        )
    return arguments


def _written(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
