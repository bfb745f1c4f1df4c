"""The deployments among the recipes are of the kinds that they say, and fit each other."""

from __future__ import annotations

import difflib
import json
import re
import shlex
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

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "recipes"
IMAGES = [ROOT / "Dockerfile", ROOT / "Dockerfile.cuda"]
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
        build = each["build"]
        assert (path.parent / build["context"] / build.get("dockerfile", "Dockerfile")).is_file()
        if each["image"] == "voxcli":
            check_words(each["command"])


def linted(path: Path) -> str:
    """What the linter of Dockerfiles has to say."""
    command = [str(Path(sys.executable).with_name("hadolint")), "--no-color", str(path)]
    return subprocess.run(command, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "path", [*IMAGES, *DEPLOY.glob("*.Dockerfile")], ids=lambda path: path.name
)
def test_the_linter_finds_nothing_in_an_image(path: Path, tmp_path: Path) -> None:
    assert linted(path) == ""
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(path.read_text("utf-8") + "RUN cd / && sudo make\n", "utf-8")
    assert "DL3004" in linted(wrong)


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_an_image_holds_what_the_package_is_built_from(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    copied = [word for line in lines if re.match("COPY [^-]", line) for word in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "setup.py", "constraints.txt", "voxcli", "README.md"} <= set(copied)
    kept = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in kept if line.startswith("!")} == set(copied), "and no more is sent"
    for pattern in ("*", "**/__pycache__", "voxcli/kernels/_native.*"):  # of this machine
        assert pattern in kept


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_an_image_serves_and_says_when_it_is_ready(path: Path) -> None:
    text = path.read_text("utf-8")
    (serving,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    check_words(json.loads(serving))
    assert f"EXPOSE {PORT}" in text
    assert f"http://127.0.0.1:{PORT}/health" in text.partition("HEALTHCHECK")[2]
    user = of_kind("StatefulSet")["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert f"\nUSER {user}\n" in text
    for line in re.findall(
        r"^# .* voxcli(?::cuda)? ((?:speak|serve|models) .*?)(?: >.*)?$", text, re.M
    ):
        check_words(shlex.split(line))


def test_the_images_differ_in_what_a_card_needs() -> None:
    cpu, cuda = (path.read_text("utf-8").partition("\nFROM")[2].splitlines() for path in IMAGES)
    changes = [line for line in difflib.ndiff(cpu, cuda) if line[:2] in ("- ", "+ ")]
    removed = [line[2:] for line in changes if line[0] == "-"]
    assert all(
        re.search("TORCH_INDEX|install .* torch |triton$|HEALTHCHECK", line) for line in removed
    ), removed


def test_the_table_of_the_recipes_has_as_many_rows_as_asked() -> None:
    command = [sys.executable, str(RECIPES / "rows.py"), "1000"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len(text.splitlines()) == 1001
