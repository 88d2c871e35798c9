"""Validate the deployment files (ops/docs/CLUSTER.md has the commands).

hadolint checks the Dockerfile, the schema of the Compose specification checks the Compose files, Helm lints
and renders the chart, and strict schemas of each listed version of Kubernetes check every manifest. The
script runs in an environment of its own, and does not build or deploy.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml
from helm_python.chart import Chart, lint

FOLDER: Final = Path(__file__).parent
COMPOSE: Final = tuple(str(FOLDER / name) for name in ("compose.yaml", "compose.standby.yaml"))
CHART: Final = FOLDER / "helm" / "stanchion"
KUBERNETES: Final = ("1.28.0", "1.32.0", "1.37.0")
WARNING: Final = 2
OPERATOR: Final = "monitoring.coreos.com/"
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "with options": {
        "iso8583From": ["10.20.0.0/16"],
        "service": {"iso8583": {"type": "LoadBalancer"}},
        "head": {"storage": {"className": "fast"}},
        "rayRedis": {"address": "redis.example.com:6379"},
        "image": {"tag": "0.2.0-1"},
        "tls": {"existingSecret": "stanchion-tls"},
        "metrics": {"tls": {"existingSecret": "stanchion-metrics-tls"}},
        "links": {"existingSecret": "stanchion-links", "ports": [8600, 8601]},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "hosts": {"api": "api.example.com", "vision": "vision.example.com"},
            "tlsSecret": "stanchion-names",
        },
        "monitoring": {
            "labels": {"release": "monitoring"},
            "serviceMonitor": {"enabled": True, "tlsConfig": {"serverName": "metrics.example.com"}},
            "prometheusRule": {"enabled": True, "runbookBase": "https://example.com/stanchion/"},
        },
    },
}


def main() -> int:
    """Run every validator; the exit status is 0 only if none reports an error."""
    held = [
        _run("hadolint", "Dockerfile", str(FOLDER / "Dockerfile")),
        _run("check-jsonschema", "both Compose files", "--builtin-schema", "vendor.compose-spec", *COMPOSE),
        _lint(),
        *(_render(name, values) for name, values in VARIANTS.items()),
    ]
    return 0 if all(held) else 1


def _run(tool: str, subject: str, *arguments: str) -> bool:
    command = [str(Path(sys.executable).with_name(tool)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return _report(f"{subject}, {tool}", done.returncode == 0, done.stdout + done.stderr)


def _lint() -> bool:
    report = lint(CHART, strict=True)
    grave = [each for each in report["messages"] if each["severity"] >= WARNING]
    return _report("the chart, helm lint", not grave and not report["errors"], f"{grave} {report['errors']}")


def _render(name: str, values: dict[str, Any]) -> bool:
    with Chart.load(CHART) as chart:
        rendered = chart.render(values=values, name="demo")
    manifests = {path: text for path, text in rendered.items() if path.endswith(".yaml")}
    documents = [each for text in manifests.values() for each in yaml.safe_load_all(text) if each]
    # The validator knows the objects of Kubernetes, not those of the Prometheus operator.
    documents = [each for each in documents if not each["apiVersion"].startswith(OPERATOR)]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, document in enumerate(documents):
            path = Path(folder) / f"{number}-{document['kind']}.yaml"
            path.write_text(yaml.safe_dump(document))
            files.append(str(path))
        held = [
            _run(
                "kubernetes-validate",
                f"{len(files)} manifests {name}, Kubernetes {version}",
                "--strict",
                "--kubernetes-version",
                version,
                *files,
            )
            for version in KUBERNETES
        ]
    return bool(documents) and all(held)


def _report(subject: str, passed: bool, output: str) -> bool:
    print(f"{'ok  ' if passed else 'BAD '} {subject}")
    if not passed:
        print(output)
    return passed


if __name__ == "__main__":
    sys.exit(main())
