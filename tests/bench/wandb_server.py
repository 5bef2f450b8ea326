"""As much of W&B's server as its client asks for, on a loopback port: GraphQL, file stream, uploads."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Service:
    """What was sent, by W&B's id of the run."""

    base_url: str = ""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    exit_codes: dict[str, int] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    die_after_rows: int | None = None
    """So many history rows are taken; from then on no request is answered but with 500."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self, run_id: str) -> list[dict[str, Any]]:
        """The history in order, without W&B's own columns."""
        stored = self.history.get(run_id, {})
        return [{k: v for k, v in stored[n].items() if not k.startswith("_")} for n in sorted(stored)]

    @property
    def dead(self) -> bool:
        return self.die_after_rows is not None and sum(map(len, self.history.values())) >= self.die_after_rows

    def graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any] | None:
        """The data of an answer; None where the operation isn't known."""
        name = (re.search(r"(?:query|mutation)\s+(\w+)", query) or [None, ""])[1]
        project = {"id": "p", "name": variables.get("project", "p"), "entity": {"id": "u", "name": "user"}}
        run = variables.get("name") or variables.get("run") or ""
        if name in ("UpsertBucket", "UpsertRun"):
            new = run not in self.runs
            self.runs.setdefault(run, {}).update({k: v for k, v in variables.items() if v is not None})
            bucket = {
                "id": f"id-{run}", "name": run, "displayName": run, "description": "", "config": "{}",
                "sweepName": None, "project": project, "historyLineCount": len(self.history.get(run, {})),
            }  # fmt: skip
            return {"upsertBucket": {"bucket": bucket, "inserted": new}}
        if name == "RunResumeStatus":
            return {"model": {**project, "bucket": self._resumed(run)}}
        if name == "Viewer":
            viewer = {"id": "u", "entity": "user", "username": "user", "flags": "{}", "teams": {"edges": []}}
            return {"viewer": viewer}
        if name in ("ServerFeaturesQuery", "ServerInfo", "ServerInfoQuery"):
            return {"serverInfo": {"features": [], "cliVersionInfo": {}, "latestLocalVersionInfo": None}}
        if name == "CreateRunFiles":
            files = [{"name": f, "uploadUrl": f"{self.base_url}/put/{run}/{f}"} for f in variables["files"]]
            return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}
        if name == "CreateArtifact":
            self.artifacts.append(dict(variables["input"]))
            sequence = {"id": "sequence", "latestArtifact": None}
            made = {"id": f"a{len(self.artifacts)}", "state": "PENDING", "artifactSequence": sequence}
            return {"createArtifact": {"artifact": made}}
        if name in ("CreateArtifactManifest", "UpdateArtifactManifest"):
            file = {"id": "f", "name": "manifest", "displayName": "m", "uploadHeaders": []}
            file["uploadUrl"] = f"{self.base_url}/put/manifest"
            return {name[0].lower() + name[1:]: {"artifactManifest": {"id": "manifest", "file": file}}}
        if name == "CreateArtifactFiles":
            specs = variables["input"]["artifactFiles"]
            edges = [
                {"node": {
                    "id": "f", "name": s["name"], "displayName": s["name"], "uploadHeaders": [],
                    "uploadUrl": f"{self.base_url}/put/artifact/{s['name']}", "uploadMultipartUrls": None,
                    "storagePath": s["name"], "artifact": {"id": s["artifactID"]},
                }} for s in specs
            ]  # fmt: skip
            return {"createArtifactFiles": {"files": {"edges": edges}}}
        if name == "CommitArtifact":
            return {"commitArtifact": {"artifact": {"id": "a", "digest": "d"}}}
        return None

    def _resumed(self, run: str) -> dict[str, Any] | None:
        if run not in self.runs:
            return None
        lines, summary = self.history.get(run, {}), self.summaries.get(run, {})
        last = max(lines, default=-1)
        return {
            "name": run, "summaryMetrics": json.dumps({**summary, "_step": last}), "displayName": run,
            "logLineCount": 0, "historyLineCount": len(lines), "eventsLineCount": 0,
            "historyTail": json.dumps([json.dumps({"_step": last, "_runtime": 1})] if lines else []),
            "eventsTail": "[]", "config": "{}", "tags": [], "wandbConfig": "{}",
        }  # fmt: skip

    def stream(self, run: str, body: dict[str, Any]) -> None:
        for name, chunk in body.get("files", {}).items():
            if name == "wandb-history.jsonl":
                for n, line in enumerate(chunk["content"], start=chunk["offset"]):
                    self.history.setdefault(run, {})[n] = json.loads(line)
            elif name == "wandb-summary.json":
                self.summaries[run] = json.loads(chunk["content"][-1])
        if body.get("complete"):
            self.exit_codes[run] = int(body.get("exitcode", 0))


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    """Answers on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self, value: dict[str, Any], code: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with service.lock:
                if service.dead:
                    self._answer({"error": "out of order"}, 500)
                elif self.path == "/graphql":
                    asked = json.loads(body)
                    data = service.graphql(asked["query"], asked.get("variables") or {})
                    if data is None:
                        service.unknown.append(asked["query"])
                        self._answer({"errors": [{"message": "unknown operation"}]})
                    else:
                        self._answer({"data": data})
                elif self.path.endswith("/file_stream"):
                    service.stream(self.path.split("/")[-2], json.loads(body))
                    self._answer({})
                else:
                    self._answer({})

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            service.uploads[self.path.removeprefix("/put/")] = data
            self._answer({})

        def do_GET(self) -> None:
            self._answer({})

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Connections that the client resets are its way to close them."""

    server = Server(("127.0.0.1", 0), Handler)
    service.base_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
