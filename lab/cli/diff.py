"""The command `lab diff`: two sides in, their comparison out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UserError
from lab.base.terminal import write

if TYPE_CHECKING:
    from lab.diff.comparison import SideComparison
    from lab.diff.gates import GateFailure
    from lab.diff.settings import DiffSettings
    from lab.diff.sides import SideRequest

_OK, _FAILED = 0, 1

Words = list[str] | None


def diff(
    base: Annotated[
        str,
        typer.Argument(
            help="A .cu, .ptx, cubin, fatbin, .so or wheel, a folder of these, a git revision, or a collected side.",
            show_default=False,
        ),
    ],
    head: Annotated[str, typer.Argument(help="The other side.", show_default="the working directory")] = ".",
    arch: Annotated[
        Words, typer.Option("--arch", "--archs", help="Architecture: sm_90. May be repeated, or sm_80,sm_90.")
    ] = None,
    toolchain: Annotated[
        Words, typer.Option(help="Compiler of sources: nvrtc==12.9. May be repeated.", show_default="auto")
    ] = None,
    base_toolchain: Annotated[
        Words, typer.Option(help="Compiler of BASE, where it differs: what does a new compiler change?")
    ] = None,
    kernel: Annotated[Words, typer.Option(help="Kernel or instance to compile. May be repeated.")] = None,
    define: Annotated[Words, typer.Option("--define", "-D", help="Macro of sources.")] = None,
    include: Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")] = None,
    option: Annotated[Words, typer.Option(help="Compiler option: --option=--use_fast_math.")] = None,
    base_option: Annotated[Words, typer.Option(help="Compiler option of BASE, in place of --option.")] = None,
    root: Annotated[
        Path | None, typer.Option(help="Highest folder of included files.", show_default="the project's")
    ] = None,
    build: Annotated[str, typer.Option(help="Command that builds a revision or folder: 'make -j4'.")] = "",
    artifact: Annotated[
        Words, typer.Option(help="File or folder that the build leaves.", show_default="the whole folder")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Sources, flags and thresholds.", show_default="lab-diff.yaml of each side")
    ] = None,
    experiment: Annotated[
        str, typer.Option(help="Experiment of both sides that executes the kernels on the CPU.", show_default=False)
    ] = "",
    from_merge_base: Annotated[
        bool, typer.Option("--merge-base", help="Compare with the common ancestor of BASE and the checked-out commit.")
    ] = False,
    fail_on: Annotated[
        Words,
        typer.Option(help="Threshold for exit code 1: 'spills>0', 'registers>+8', 'predicted>+3%', 'class>renamed'."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a comment for the pull request.")] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with both listings side by side.")] = None,
    collect: Annotated[
        Path | None, typer.Option(help="Write BASE as JSON, to be a side of later comparisons; compare nothing.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every kernel, and the aligned listings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare the machine code of two builds: which kernels changed, how, and what that costs.

    The exit code is 1 if a threshold of --fail-on does not hold.
    """
    from lab.diff.comparison import compare_sides
    from lab.diff.gates import check_gates, read_gate
    from lab.diff.revision import merge_base
    from lab.diff.side import to_json
    from lab.diff.sides import collect_side, settings_of

    folder = Path.cwd()
    settings = settings_of(Path(head) if Path(head).is_dir() else folder, config)
    gates = [read_gate(text) for text in (fail_on or (settings.fail_on if settings else []))]
    request = _request(settings, _list(arch), _list(toolchain), (kernel, define, option), (include, root))
    request = replace(request, config=config, build=build, artifacts=tuple(artifact or ()))
    before = request.options
    if base_toolchain:
        before = replace(before, toolchains=_list(base_toolchain))
    if base_option is not None:
        before = replace(before, options=tuple(base_option))
    if from_merge_base:
        base = merge_base(base, "HEAD", folder)
    first = collect_side(base, replace(request, options=before), folder)
    if collect is not None:
        _write(collect, to_json(first))
        write(f"{collect}: {len(first.images)} images of {base}")
        return
    second = collect_side(head, request, folder)
    absolute = any(gate.compare is not None and not gate.change and gate.figure != "class" for gate in gates)
    comparison = compare_sides(first, second, figures=absolute)
    experiment = experiment or (settings.experiment if settings else "")
    if experiment:
        from lab.cli.diff_experiment import with_experiment

        comparison = with_experiment(comparison, (base, head), experiment, request.options.archs, folder)
    elif any(gate.figure == "verdict" for gate in gates):
        raise UserError(
            "a verdict needs an experiment",
            code="missing-key",
            key="--experiment",
            accepted="an experiment file of both sides; lab new writes one",
        )
    failures = check_gates(comparison, gates)
    _show(comparison, failures, full=full, as_json=as_json)
    _write_files(comparison, failures, markdown=markdown, sarif=sarif, junit=junit, html=html)
    raise typer.Exit(_FAILED if failures else _OK)


def _list(words: Words) -> tuple[str, ...]:
    """Return the words of a repeated option, each split at commas."""
    return tuple(name.strip() for word in words or () for name in word.split(",") if name.strip())


def _request(
    settings: DiffSettings | None,
    archs: Sequence[str],
    toolchains: Sequence[str],
    words: tuple[Words, Words, Words],
    places: tuple[list[Path] | None, Path | None],
) -> SideRequest:
    from lab.diff.collect import CollectOptions
    from lab.diff.sides import SideRequest

    kernels, macros, options = words
    include, root = places
    return SideRequest(
        CollectOptions(
            archs=tuple(archs or (settings.archs if settings else ())),
            toolchains=tuple(toolchains or (settings.toolchains if settings else ("auto",))),
            kernels=tuple(kernels or ()),
            root=root,
            include=tuple(include or ()),
            macros=tuple(macros or ()),
            options=tuple(options or ()),
        ),
        stand_in=settings,
    )


def _show(comparison: SideComparison, failures: Sequence[GateFailure], *, full: bool, as_json: bool) -> None:
    from lab.diff.render.machine import as_json as json_of
    from lab.diff.render.terminal import terminal_lines

    if as_json:
        import json

        write(json.dumps(json_of(comparison, failures), indent=1, ensure_ascii=False, default=str))
        return
    for line in terminal_lines(comparison, failures, full=full):
        write(line)


def _write_files(comparison: SideComparison, failures: Sequence[GateFailure], **files: Path | None) -> None:
    from lab.diff.render.machine import junit, sarif
    from lab.diff.render.markdown import markdown
    from lab.diff.render.page import page

    renderers: dict[str, Callable[[SideComparison, Sequence[GateFailure]], str]] = {
        "markdown": markdown, "sarif": sarif, "junit": junit, "html": page,
    }  # fmt: skip
    for name, file in files.items():
        if file is not None:
            _write(file, renderers[name](comparison, failures))
            write(f"wrote {file}", error=True)


def _write(file: Path, text: str) -> None:
    from lab.base.files import write_atomically

    write_atomically(file, text)
