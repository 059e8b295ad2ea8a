"""The command line of ReMe 0.1, as typed there: what it accepts, what it refuses, and what it says when it starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from reme_core.cli.session import _heed_workspace_in_dotenv
from reme_core.compat.command_line import settings_of
from reme_core.errors import ConfigurationError
from reme_core.flows.catalog import Catalog
from reme_core.settings import Settings
from reme_core.spool.waiting import spool_path
from tests.loopback import Loopback
from tests.scripts import REME
from tests.server.conftest import Process


def test_values_are_read_as_reme_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_of(
        [
            "backend=http",
            "--http.port=8010",
            "language=zh",
            "llm.default.backend=openai_compatible",
            'llm.default.params={"temperature": 0.6, "seed": null}',
            "embedding_model.default.params.dimensions=512",
            "vector_store.default.backend=local",
            "config=default",
            "flow.mine.flow_content=build_query >> recall >> merge",
            "op.rerank.params.top_k=7",
            "recall.log=false",
        ]
    )
    assert (settings.backend, settings.http.port, settings.language) == ("http", 8010, "zh")
    assert settings.llm["default"].params == {"temperature": 0.6, "seed": None}
    assert settings.embedding_model["default"].params == {"dimensions": 512}
    assert settings.flow["mine"].flow_content == "build_query >> recall >> merge"
    assert settings.op["rerank"].params == {"top_k": 7}
    assert settings.recall.log is False


def test_the_service_is_http_where_none_is_named_as_in_reme_s_own_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings_of(["llm.default.model_name=x", "--http.port=8010"]).backend == "http"
    assert settings_of(["config=default"]).backend == "http"
    assert settings_of(["--backend=mcp"]).backend == "mcp"
    (tmp_path / "mine.yaml").write_text("backend: mcp\n")
    (tmp_path / "none.yaml").write_text("language: zh\n")
    assert [settings_of([f"config={name}"]).backend for name in ("mine", "none")] == ["mcp", "cmd"]


def test_the_command_line_wins_over_the_file_and_the_file_over_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text("http: {port: 1, host: 127.0.0.2}\nlanguage: en\n")
    (tmp_path / "mine.yaml").write_text("import_config: base.yaml\nhttp: {port: 2}\nlanguage: zh\n")
    settings = settings_of(["config=mine", "http.port=3"])
    assert (settings.http.port, settings.http.host, settings.language) == (3, "127.0.0.2", "zh")
    # Also under the names that settings had in ExperienceMaker.
    assert settings_of(["config=mine", "http_service.port=4"]).http.port == 4
    assert Settings.load("http_service.port=4", environ={"REME_HTTP__PORT": "5"}).http.port == 4
    assert Settings.load("http_service.port=4", "http.port=6", environ={}).http.port == 6
    (tmp_path / "old.yaml").write_text("import_config: base.yaml\nhttp_service: {port: 7}\n")
    assert settings_of(["config=old"]).http.port == 7
    with pytest.raises(ConfigurationError, match="http: Input should be"):
        settings_of(["http_service=7"])


def test_a_file_imports_what_stands_beside_its_name_also_if_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "mine.yaml").write_text("import_config: base.yaml\n")
    (tmp_path / "mine.yaml").symlink_to(tmp_path / "shared" / "mine.yaml")
    (tmp_path / "base.yaml").write_text("language: zh\n")
    assert Settings.load(config=tmp_path / "mine.yaml").language == "zh"


def test_env_files_are_searched_upwards_and_hold_the_flow_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("FLOW_LLM_API_KEY=sk-1\nFLOW_EMBEDDING_BASE_URL=http://127.0.0.1:1/v1\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    settings = settings_of(["backend=http"])
    assert settings.llm["default"].api_key.get_secret_value() == "sk-1"
    assert settings.embedding_model["default"].base_url == "http://127.0.0.1:1/v1"


def test_the_folder_and_the_workspace_may_stand_in_an_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("REME_HOME=/srv/memory\nREME_WORKSPACE=alice\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        os, "environ", {n: v for n, v in os.environ.items() if n not in ("REME_HOME", "REME_WORKSPACE")}
    )
    assert settings_of([]).data_dir == Path("/srv/memory")
    assert settings_of(["data_dir=/srv/other"]).data_dir == Path("/srv/other")
    _heed_workspace_in_dotenv()
    assert os.environ["REME_WORKSPACE"] == "alice"
    os.environ |= {"REME_HOME": "/srv/here", "REME_WORKSPACE": "bob"}
    _heed_workspace_in_dotenv()
    assert (settings_of([]).data_dir, os.environ["REME_WORKSPACE"]) == (Path("/srv/here"), "bob")


def test_folders_may_be_named_from_home_on_where_no_shell_reads_the_name() -> None:
    settings = Settings.load('library_dirs=["~/library"]', environ={"REME_HOME": "~/memory"})
    # For all that is there: a spool below a folder `~` of the current one would be found by nobody else.
    assert spool_path("file", settings) == Path.home() / "memory" / "spool" / "embedded.sqlite3"
    assert settings.library_dirs == [Path.home() / "library"]
    with pytest.raises(ConfigurationError, match="data_dir: ~no-such-user"):
        Settings.load("data_dir=~no-such-user/memory", environ={})


def test_a_file_imports_several_from_beside_it_or_from_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "mine.yaml").write_text("import_config: default, base.yaml, other\nhttp: {port: 2}\n")
    (tmp_path / "base.yaml").write_text("http: {port: 1, host: 127.0.0.2}\nlanguage: en\n")
    (tmp_path / "ours" / "other.yaml").write_text("language: zh\n")
    (tmp_path / "other.yaml").write_text("language: en\n")
    (tmp_path / "ours" / "list.yaml").write_text("import_config: [default, base.yaml, other]\nhttp: {port: 2}\n")
    for name in ("mine", "list"):
        settings = settings_of([f"config_path=ours/{name}.yaml"])
        assert (settings.http.port, settings.http.host, settings.language) == (2, "127.0.0.2", "zh")


def test_numbers_are_read_that_are_none_in_json() -> None:
    given = [f"llm.default.params.{name}={text}" for name, text in (("a", ".5"), ("b", "1."), ("c", "+0.5e1"))]
    assert Settings.load(*given, "llm.default.model_name=1.2.3", environ={}).llm["default"].params == {
        "a": 0.5, "b": 1.0, "c": 5.0,
    }  # fmt: skip


@pytest.mark.parametrize("key", ["0123", "123456", "1e5", "null"])
def test_a_key_that_looks_like_a_number_is_a_key(key: str) -> None:
    assert Settings.load(f"llm.default.api_key={key}", environ={}).llm["default"].api_key.get_secret_value() == key


def test_a_list_of_names_may_come_as_text_and_a_host_that_no_request_could_name_is_refused() -> None:
    environ = {"REME_HTTP__ALLOWED_HOSTS": "reme.example, b.example", "REME_MCP__TOOLS": "react", "REME_OPS": "my.py"}
    settings = Settings.load(environ=environ)
    assert (settings.http.allowed_hosts, settings.mcp.tools) == (["reme.example", "b.example"], ["react"])
    assert (settings.ops, Settings.load("mcp.tools=all", environ={}).mcp.tools) == (["my.py"], "all")
    assert Settings.load("http.allowed_hosts=2001:db8::1", environ={}).http.allowed_hosts == ["2001:db8::1"]
    for host in ("https://reme.example", "reme.example:443", "*.example"):
        with pytest.raises(ConfigurationError, match="give the name alone"):
            Settings.load(f"mcp.allowed_hosts={host}", environ={})


def test_settings_of_experience_maker_go_where_they_are_now(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_of(
        ["mcp_transport=sse", "thread_pool.max_workers=64", "api.retriever=build_query_op->recall_vector_store_op",
         "op.recall_experience_op.params.retrieve_top_k=50", "flow.react.flow_content=skip", "api.agent=react_v1_op"]
    )  # fmt: skip
    Catalog(settings).check()
    assert settings.mcp.transport == "sse"
    assert settings.flow["retrieve_task_memory"].flow_content == "build_query_op->recall_vector_store_op"
    assert settings.flow["react"].flow_content == "skip", "what is set under the present name wins"
    assert "thread_pool has no effect" in caplog.text


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("enabled_flows=react,vector_store", "enabled_flows is not supported: .*mcp.tools"),
        ('disabled_flows=["vector_store"]', "disabled_flows is not supported: .*mcp.tools"),
        ('external_mcp={"search": {"command": "npx"}}', "external_mcp is not supported: .*`ops`"),
        ("cmd.flow=demo", "cmd is not supported: .*`reme --help`"),
        ("op.rerank_memory_op.prompt_path=mine.yaml", "op.rerank_memory_op.prompt_path is not supported: .*`ops`"),
    ],
)
def test_a_setting_of_reme_01_that_must_not_be_ignored_says_what_to_do(setting: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        settings_of([setting])
    settings_of([f"{re.split('[.=]', setting)[0]}={{}}"])  # in a file that names them all


def test_files_that_import_each_other_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("import_config: b.yaml\n")
    (tmp_path / "b.yaml").write_text("import_config: a\n")
    with pytest.raises(ConfigurationError, match=r"b\.yaml imports .*a\.yaml, which imports it"):
        Settings.load(config=tmp_path / "a.yaml")


def test_a_file_of_settings_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("[" * 20_000)
    with pytest.raises(ConfigurationError, match="is not valid YAML"):
        Settings.load(config=tmp_path / "deep.yaml")


@pytest.mark.parametrize(
    "setting",
    ["worker.concurrency=0", "worker.concurrency=-1", "worker.reflect_every_hours=1e8", "retention.log_days=1e7",
     "http.limit_concurrency=0", "llm.default.max_concurrency=0", "worker.after_messages=0",
     "limits.read_seconds=3e6", "limits.write_seconds=Infinity", "limits.lock_seconds=1e-4"],
)  # fmt: skip
def test_settings_that_nothing_works_with_are_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting.partition("=")[0]):
        Settings.load(setting, environ={})


def test_every_setting_is_an_environment_variable_too(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("http: {port: 1, host: 127.0.0.2}\nlanguage: en\n")
    environ = {
        "REME_HTTP__PORT": "2",
        "REME_LANGUAGE": "",
        "REME_LLM__SMALL__MODEL_NAME": "Qwen",
        "REME_LLM__SMALL__API_KEY": "12",
        "REME_OP__RERANK__PARAMS": '{"top_k": 7}',
        "DATABASE_URL": "postgresql://old",
        "REME_DATABASE_URL": "postgresql://new",
    }
    settings = Settings.load("mcp.port=3", config=tmp_path / "mine.yaml", environ=environ)
    assert (settings.http.port, settings.http.host, settings.language, settings.mcp.port) == (2, "127.0.0.2", "en", 3)
    assert settings.llm["small"].model_name == "Qwen" and settings.llm["small"].api_key.get_secret_value() == "12"
    assert settings.op["rerank"].params == {"top_k": 7}
    assert settings.database_url and settings.database_url.get_secret_value() == "postgresql://new"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("REME_HTTP__PRT", "1", r"unknown setting 'http\.prt'; did you mean 'http\.port'\?"),
        ("REME_HTPP__PORT", "1", r"unknown setting 'htpp'; did you mean 'http'\?"),
        ("REME_LLMS__DEFAULT__MODEL_NAME", "small", r"unknown setting 'llms'; did you mean 'llm'\?"),
        ("REME_TIMEZONE", "Berlin", r"timezone: unknown time zone 'Berlin'; give an IANA name"),
        ("REME_LANGAUGE", "zh", r"unknown setting REME_LANGAUGE; did you mean REME_LANGUAGE\?"),
        ("REME_HTTP_PORT", "8010", r"unknown setting REME_HTTP_PORT; did you mean REME_HTTP__PORT\?"),
        ("REME_WORKSPACES", "alice", r"unknown setting REME_WORKSPACES; did you mean REME_WORKSPACE\?"),
        ("REME_HTTP__PORT", "many", "http.port: Input should be a valid integer"),
        ("REME_LIBRARY_DIRS", "/tmp", "library_dirs: Input should be a valid list"),
    ],
)
def test_a_wrong_environment_variable_is_named_like_any_setting(name: str, value: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Settings.load(environ={name: value})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("REME_LANG", "; did you mean REME_LANGUAGE?"),
        ("REME_LLM_API_KEY", "; did you mean REME_LLM__DEFAULT__API_KEY?"),  # ReMe 0.2 reads it
        ("REME_BACKUP_BUCKET", ""),
    ],
)
def test_a_variable_that_another_program_may_read_is_told_of_and_stops_nothing(
    name: str, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert Settings.load(environ={name: "1"}) == Settings()
    assert caplog.messages == [f"{name} is no setting and has no effect{advice}"]


def test_variables_of_ours_that_are_no_settings_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    ours = dict.fromkeys(("REME_HOME", "REME_WORKSPACE", "REME_URL", "REME_TEST_POOLER", "REME_BENCH_CACHE"), "1")
    # A pod gets these for each Kubernetes service, here for `reme` and `reme-http`.
    address = "tcp://10.0.0.1:8002"
    pod = {f"{name}_PORT": address for name in ("REME", "REME_HTTP")} | {
        "REME_SERVICE_HOST": "10.0.0.1",
        "REME_HTTP_SERVICE_PORT": "8002",
        "REME_HTTP_SERVICE_PORT_METRICS": "8003",
        "REME_HTTP_PORT_8002_TCP": address,
        "REME_HTTP_PORT_8002_TCP_ADDR": "10.0.0.1",
    }
    assert Settings.load(environ=ours | pod) == Settings(data_dir=Path("1"))
    assert caplog.messages == []


@pytest.mark.parametrize("name", [".env", "mine.yaml"])
def test_a_file_of_settings_that_is_no_text_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(b"language\xff=en")
    with pytest.raises(ConfigurationError, match=rf"{re.escape(name)} is not UTF-8"):
        Settings.load(config=None if name == ".env" else name)


def test_settings_that_cannot_be_read_are_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("REME_LANGUAGE=en")
    monkeypatch.chdir(tmp_path)

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)  # root, who runs tests in containers, may read every file

    monkeypatch.setattr("reme_core.settings.sources.dotenv_values", refuse)
    with pytest.raises(ConfigurationError, match=r"cannot read .*/\.env: Permission denied"):
        Settings.load()


def test_settings_that_are_made_by_hand_do_not_look_into_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REME_HTTP__PORT", "2")
    assert Settings().http.port == 8002


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("htp.port=1", r"unknown setting 'htp'; did you mean 'http'\?"),
        ("recall.top=3", r"unknown setting 'recall\.top'; there are fusion, vector_share, exact_below, .*"),
        ("http.prt=1", r"unknown setting 'http\.prt'; did you mean 'http\.port'\?"),
        ("llm.default.modelname=x", r"did you mean 'llm\.default\.model_name'\?"),
        ("http.port=many", "http.port"),
        (
            "vector_store.default.backend=elasticsearch",
            "vector_store.default.backend: .* not in elasticsearch: say 'local'",
        ),
        ("vector_store.default.backend=locl", "vector_store.default.backend: Input should be 'local'"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(argument: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        settings_of(["backend=http", argument])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["backend=http", "http.prt=1"], "did you mean 'http.port'?"),
        (["backend=cmd"], "backend=http or backend=mcp"),
        (["llm.default.model_name=x", "http.port=99999"], "cannot listen on 127.0.0.1:99999"),
        (["backend=http", "flow.bad.flow_content=build_query >> recal"], "recal"),
    ],
)
def test_a_mistake_ends_the_program_with_a_sentence(tmp_path: Path, arguments: list[str], told: str) -> None:
    done = subprocess.run([REME, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.timeout(120)
def test_it_starts_warns_where_anybody_could_reach_it_and_stops_when_told(
    start: Callable[..., Process], free_port: int
) -> None:
    idle = "op.parse_tool_call_result_op.params.evaluation_sleep_interval"
    process = start("--backend=http", f"--http.port={free_port}", "http.host=0.0.0.0", f"{idle}=1.0")
    process.wait_until_healthy()
    assert process.said.count(f"{idle} has no effect") == 1
    assert "WARNING: open to everybody" in process.said
    assert "embedded Postgres" in process.said
    assert f":{free_port}" in process.said
    body = json.dumps({"query": "x"})
    answer = httpx.post(
        f"{process.url}/retrieve_task_memory", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 200
    assert process.stop() in (0, -15)
    assert "Traceback" not in process.said
    libraries = ("httpx", "procrastinate", "alembic.runtime.plugins")
    assert not [line for line in process.said.splitlines() if any(name in line for name in libraries)]


@pytest.mark.timeout(120)
def test_requests_to_models_are_not_logged_since_urls_may_hold_secrets(
    start: Callable[..., Process], free_port: int, loopback: Loopback
) -> None:
    loopback.chat("Take a plane.")
    models = [
        f"{section}.default.{key}" for section in ("llm", "embedding_model") for key in ("base_url", "model_name")
    ]
    values = [loopback.url, "loop-chat"] * 2
    process = start("backend=http", f"http.port={free_port}", *map("=".join, zip(models, values, strict=True)))
    process.wait_until_healthy()
    answer = httpx.post(f"{process.url}/retrieve_task_memory", json={"query": "x"}, timeout=30)
    assert answer.status_code == 200, answer.text
    assert loopback.bodies("/embeddings")
    assert "HTTP Request" not in process.said
    assert loopback.url not in process.said
