"""`lab-diff.yaml`: the sources and flags of a project, its architectures and thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.validation import Strict, validate

FILE: Final = "lab-diff.yaml"


class SourceEntry(Strict):
    """One source of `kernels`. Paths are relative to the folder of the file.

    Attributes:
        source: The CUDA source or PTX.
        kernels: Instances to compile, `scale<float>`; empty means all kernels and the instances that the host launches.
        include: Folders of headers.
        define: Macros, `NAME` or `NAME=value`.
        options: Further compiler options, `--use_fast_math`.
    """

    source: str
    kernels: list[str] = Field(default_factory=list)
    include: list[str] = Field(default_factory=list)
    define: list[str] = Field(default_factory=list)
    options: list[str] = Field(default_factory=list)


class DiffSettings(Strict):
    """The whole file.

    Attributes:
        kernels: Sources that lab compiles.
        build: A command that builds `artifacts`, in place of `kernels`.
        artifacts: Files or folders that the command leaves.
        archs: Architectures.
        toolchains: Compilers of lab, `nvrtc==12.9`.
        fail_on: Thresholds.
        experiment: An experiment that executes the kernels, whose verdicts of both sides are compared.
    """

    kernels: list[SourceEntry] = Field(default_factory=list)
    build: str = ""
    artifacts: list[str] = Field(default_factory=list)
    archs: list[str] = Field(default_factory=list)
    toolchains: list[str] = Field(default_factory=lambda: ["auto"])
    fail_on: list[str] = Field(default_factory=list)
    experiment: str = ""


def read_settings(file: Path) -> DiffSettings:
    """Read the file.

    Raises:
        UserError: It is malformed, or names neither sources nor artifacts.
    """
    document = yamlfile.parse(yamlfile.read_text(file, label="the settings"), file)
    settings = validate(DiffSettings, document)
    if not settings.kernels and not settings.artifacts:
        raise UserError(
            "neither sources nor artifacts",
            code="missing-key",
            at=Location(file),
            key="kernels",
            accepted="kernels: a list with a source each; or build: a command, and artifacts: its files",
        )
    if settings.kernels and settings.artifacts:
        raise UserError(
            "sources and artifacts",
            code="conflict",
            at=document.at("artifacts"),
            key="artifacts",
            accepted="kernels or artifacts",
        )
    return settings
