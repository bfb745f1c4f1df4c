"""The deployments among the recipes are of the kinds that they say, and fit each other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose
from typer.testing import CliRunner

from voxcli.cli import app
from voxcli.engine.choose import check_spec

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
DEPLOY = RECIPES / "deploy"
COMPOSED = sorted(DEPLOY.glob("*.compose.yaml"))
PORT = 8091


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (each for each in manifests() if each["kind"] == kind)
    return found


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (found,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(found)


def engine_of(words: list[str]) -> list[str]:
    return check_spec(words[words.index("--engine") + 1]).split(",")


def options_of(command: str) -> set[str]:
    text = CliRunner().invoke(app, [command, "--help"]).output
    return set(re.findall(r"-{1,2}[a-z][a-z-]*", text))


def check_words(words: list[str]) -> None:
    """Whether this voxcli knows the command and its options."""
    given = {word for word in words[1:] if re.fullmatch(r"-{1,2}[a-z][a-z-]*", word)}
    assert given <= options_of(words[0]), words


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_kubernetes_takes_every_manifest(version: str) -> None:
    found = manifests()
    assert len(found) == 4
    for manifest in found:
        kubernetes_validate.validate(manifest, version, strict=True)
    wrong = of_kind("StatefulSet")
    container(wrong)["readinessProbe"]["httpGet"]["way"] = "/health"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_pods_are_ready_when_their_model_is() -> None:
    serving = container(of_kind("StatefulSet"))
    (port,) = serving["ports"]
    assert port["containerPort"] == PORT
    assert serving["readinessProbe"]["httpGet"] == {"path": "/health", "port": port["name"]}
    check_words(serving["args"])


def test_the_job_asks_every_pod_by_its_own_name() -> None:
    servers, service = of_kind("StatefulSet"), of_kind("Service")
    assert service["metadata"]["name"] == servers["spec"]["serviceName"]
    assert service["spec"]["clusterIP"] == "None"
    labels = servers["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    name, domain = servers["metadata"]["name"], service["metadata"]["name"]
    batch = container(of_kind("Job"))
    assert engine_of(batch["args"]) == [
        f"http://{name}-{index}.{domain}:{PORT}" for index in range(servers["spec"]["replicas"])
    ]
    assert batch["env"] == container(servers)["env"], "one key"
    check_words(batch["args"])


def test_a_key_that_compose_does_not_know_is_found() -> None:
    with pytest.raises(ValueError, match="imagine"):
        PyCompose.from_yaml("services: {one: {imagine: voxcli}}")


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.name)
def test_compose_files_are_valid_and_the_batch_asks_every_server(path: Path) -> None:
    composed = yaml.safe_load(path.read_text("utf-8"))  # it merges, the validator does not
    PyCompose.from_yaml(yaml.dump(composed)).validate()
    services = composed["services"]
    batch = services.pop("batch")
    assert engine_of(batch["command"]) == [f"http://{name}:{PORT}" for name in services]
    assert set(batch["depends_on"]) == set(services)
    check_words(batch["command"])
    for each in services.values():
        assert (path.parent / each["build"]["context"] / each["build"]["dockerfile"]).is_file()
        if each["image"] == "voxcli":
            check_words(each["command"])


def test_the_image_holds_what_the_package_is_built_from() -> None:
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if re.match("COPY [^-]", line) for word in line.split()[1:-1]]
    assert all((RECIPES.parent / name).exists() for name in copied)
    assert {"pyproject.toml", "setup.py", "constraints.txt", "voxcli", "README.md"} <= set(copied)
    assert "USER voxcli" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)


def test_the_table_of_the_recipes_has_as_many_rows_as_asked() -> None:
    command = [sys.executable, str(RECIPES / "rows.py"), "1000"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len(text.splitlines()) == 1001
