"""All flows by name: the built-in ones of `flows.yaml`, and those of the settings, which may replace them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from importlib.resources import files

import yaml

from reme_core.errors import ConfigurationError, FlowError, did_you_mean
from reme_core.flows.build import Flow, build, check_settings
from reme_core.flows.registry import load_modules, load_ops
from reme_core.settings import FlowSettings, Settings

log = logging.getLogger(__name__)


class Catalog:
    """All flows under one set of settings. Each is built once, when it is first asked for.

    The first catalog of a process imports the ops, which takes about a second: where an event loop runs, make it in a
    thread.

    Args:
        settings: `settings.flow` adds flows to the built-in ones, or replaces them by name; `settings.op` sets
            parameters and models of ops in all flows.

    Raises:
        FlowError: An op of another distribution, or a module that `settings.ops` names, cannot be imported.
        ConfigurationError: `settings.op` names an op or a parameter that does not exist, or a model that is not set.
    """

    def __init__(self, settings: Settings) -> None:
        # The ops first, since settings and flows name them.
        load_ops()
        load_modules(settings.ops)
        check_settings(settings.op)
        _check_models(settings)
        self._settings = settings
        self._flows: dict[str, FlowSettings] = {**builtin_flows(), **settings.flow}
        self._built: dict[str, Flow] = {}

    def names(self) -> list[str]:
        """The names of all flows, sorted."""
        return sorted(self._flows)

    def get(self, name: str) -> Flow:
        """The flow of this name, ready to run.

        Raises:
            FlowError: There is none (the nearest name is given), or it cannot be built.
        """
        if name not in self._built:
            made = self.content(name)
            self._built[name] = build(
                made.flow_content,
                name=name,
                settings=self._settings.op,
                description=made.description,
                input_schema=made.input_schema,
            )
        return self._built[name]

    def content(self, name: str) -> FlowSettings:
        """The text of a flow, with what it says to its callers.

        Raises:
            FlowError: There is none; the nearest name is given.
        """
        if name not in self._flows:
            hint = did_you_mean(name, self._flows, f"there are: {', '.join(self.names())}")
            raise FlowError(f"unknown flow '{name}'; {hint}")
        return self._flows[name]

    def check(self) -> None:
        """Build every flow, so that a mistake in one of them shows now and not at its first call.

        Settings of an op that no flow uses are warned of in the log.

        Raises:
            FlowError: One cannot be built.
        """
        used = {title for name in self.names() for step in self.get(name).steps for title in step.titles}
        for title in self._settings.op.keys() - used:
            log.warning("op.%s has no effect: it is in no flow; flow.<name>.flow_content says what is", title)


@functools.cache
def builtin_flows() -> Mapping[str, FlowSettings]:
    """The flows that come with ReMe core."""
    text = files("reme_core.flows").joinpath("flows.yaml").read_text(encoding="utf-8")
    tree = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe; that in C is ten times as fast
    return {name: FlowSettings.model_validate(content) for name, content in tree.items()}


def _check_models(settings: Settings) -> None:
    for title, override in settings.op.items():
        # "default" is what ops ask that name none: it may be an agent's own model, or rules.
        if override.llm not in ("", "default", *settings.llm):
            known = ", ".join(sorted(settings.llm)) or "none"
            raise ConfigurationError(
                f"op.{title}.llm names the model '{override.llm}', which is not set (set are: {known}); "
                f"add llm.{override.llm}.model_name=..."
            )
