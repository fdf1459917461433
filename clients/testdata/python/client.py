"""What callers see of lost connections, and of gateways that refuse, are busy, or are not there."""

import hashlib
import json
import os
import socket
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from podagent import CutError, Exit, Gateway, Part, PodagentError, ProblemError, Started, UnreachableError, errors
from podagent.deepagents import SandboxBackend

EACH = 150_000  # bytes of answers, after which a connection breaks


class Breaking:
    """Listens before the gateway, and breaks each connection after some bytes of answers."""

    def __init__(self):
        self.count = 0
        target = urlsplit(os.environ["PODAGENT_GATEWAY"])
        self._target = (target.hostname, target.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self):
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller):
        with caller, socket.create_connection(self._target) as gateway:
            sending = threading.Thread(target=self._pass, args=(caller, gateway, None), daemon=True)
            sending.start()
            self._pass(gateway, caller, EACH)
            sending.join()

    def _pass(self, source, to, left):
        try:
            while data := source.recv(1 << 16):
                if left is not None and (left := left - len(data)) <= 0:
                    to.sendall(data[: len(data) + left])
                    self.count += 1
                    break
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Script:
    """Serves answers in place of a gateway, and notes what was asked. After the last it repeats itself."""

    def __init__(self, *answers, port=0):
        self.asked = asked = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                status, body, headers = answers[min(len(asked), len(answers) - 1)]
                asked.append(f"{self.command} {self.path}")
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                text = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                kind = "application/problem+json" if status >= 400 else "application/json"
                for name, value in ({"Content-Type": kind, "Content-Length": len(text)} | headers).items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def gateway(self, patience=20):
        return Gateway(f"http://127.0.0.1:{self.port}", "t", patience=patience)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def problem(status, kind, headers=None, **more):
    return status, {"status": status, "title": "t", "detail": "why", "class": kind} | more, headers or {}


ME = (200, {"tenant": "acme"}, {})
MADE = (201, {"id": "job-17", "state": "running", "workdir": "/work"}, {})


class Cuts(unittest.TestCase):
    def setUp(self):
        self.before = Breaking()
        self.addCleanup(self.before.close)
        self.sandbox = Gateway(self.before.url).create()
        self.addCleanup(self.sandbox.delete)

    def test_each_byte_of_output_comes_once(self):
        digest, at, starts, ends = hashlib.sha256(), 0, 0, 0
        for event in self.sandbox.stream("echo ran >> runs; seq 200000", stdin="unused"):
            starts += isinstance(event, Started)
            ends += isinstance(event, Exit)
            if isinstance(event, Part):
                self.assertEqual((event.stream, event.offset), ("stdout", at))
                at += len(event.data)
                digest.update(event.data)
        wanted = "".join(f"{i}\n" for i in range(1, 200001)).encode()
        self.assertEqual((event.reason, event.code, at), ("exited", 0, len(wanted)))
        self.assertEqual(digest.digest(), hashlib.sha256(wanted).digest())
        self.assertEqual((starts, ends, self.sandbox.read("runs")), (1, 1, b"ran\n"))
        self.assertGreater(self.before.count, 5)

    def test_each_byte_of_input_arrives_once(self):
        data = bytes(i * 7 % 256 for i in range(700_000))
        self.sandbox.exec("cat > copy; base64 copy", stdin=data)
        self.assertEqual(self.sandbox.exec("sha256sum copy").stdout[:64], hashlib.sha256(data).hexdigest())
        command = self.sandbox.start(["cat"], open_stdin=True)
        sending = threading.Thread(target=self.sandbox.input(command).send, args=(data, True))
        sending.start()
        echo = b"".join(event.data for event in self.sandbox.output(command) if isinstance(event, Part))
        sending.join()
        self.assertEqual(hashlib.sha256(echo).digest(), hashlib.sha256(data).digest())


class Commands(unittest.TestCase):
    def test_one_whose_reader_leaves_ends(self):
        sandbox = Gateway().create()
        self.addCleanup(sandbox.delete)
        stream = sandbox.stream("echo $$; sleep 1000")
        pid = next(event for event in stream if isinstance(event, Part)).data.decode().strip()
        stream.close()
        sandbox.exec(f"while kill -0 {pid} 2>/dev/null; do :; done")
        got = sandbox.exec(["sh", "-c", 'echo "$0 $NAME"; pwd; cat; echo err >&2; exit 3', "a b"], env={"NAME": "ü"}, dir="/", stdin="in")
        self.assertEqual((got.stdout, got.stderr, got.code, got.exit.reason), ("a b ü\n/\nin", "err\n", 3, "exited"))
        tail = sandbox.exec("seq 1000", max_output=9)
        self.assertEqual((tail.stdout, tail.stdout_omitted), ("999\n1000\n", 3884))
        self.assertEqual(sandbox.exec("kill -9 $$").exit.signal, 9)


class Errors(unittest.TestCase):
    def serve(self, *answers, port=0):
        script = Script(*answers, port=port)
        self.addCleanup(script.close)
        return script

    def test_of_a_gateway_are_typed(self):
        sandbox = Gateway().create()
        self.addCleanup(sandbox.delete)
        sandbox.write("file", "1")
        cases = [
            (errors.UnauthenticatedError, 401, lambda: Gateway(token="wrong").whoami()),
            (errors.NoSandboxError, 404, lambda: Gateway().attach("no-such-sandbox")),
            (errors.NotExistError, 404, lambda: sandbox.read("none")),
            (errors.IsDirectoryError, 409, lambda: sandbox.read(".")),
            (errors.PatternError, 422, lambda: sandbox.grep("(")),
            (errors.ExistError, 409, lambda: sandbox.write("file", "2", if_none_match="*")),
            (errors.ChangedError, 412, lambda: sandbox.write("file", "2", if_match='"other"')),
            (errors.EditError, 409, lambda: sandbox.edit("file", "3", "4")),
        ]
        for kind, status, act in cases:
            with self.assertRaises(kind) as caught:
                act()
            self.assertEqual(caught.exception.status, status)

    def test_retry_after_is_waited_for_as_far_as_patience_goes(self):
        soon = {"Retry-After": "0"}
        script = self.serve(problem(429, "rate", soon), problem(503, "not_ready", soon), MADE)
        script.gateway().create()
        self.assertEqual(len(script.asked), 3)
        late = self.serve(problem(429, "quota_exceeded", {"Retry-After": "3600"}))
        with self.assertRaises(errors.QuotaExceededError) as caught:
            late.gateway().create()
        self.assertEqual((caught.exception.retry_after, len(late.asked)), (3600, 1))

    def test_calls_are_repeated_where_that_does_no_harm(self):
        self.assertEqual(self.serve(problem(503, "unavailable"), ME).gateway().whoami(), {"tenant": "acme"})
        script = self.serve(MADE, problem(503, "unavailable", {"Retry-After": "0"}), ME)
        with self.assertRaises(errors.UnavailableError):
            script.gateway().create().move("a", "b")
        self.assertEqual(len(script.asked), 2)

    def test_an_answer_that_is_cut_off_is_asked_for_again(self):
        cut = (200, '{"tenant"', {"Content-Length": "1000", "Connection": "close"})
        script = self.serve(cut, cut, ME)
        self.assertEqual(script.gateway().whoami(), {"tenant": "acme"})
        self.assertEqual(len(script.asked), 3)
        reading = self.serve(MADE, cut, (200, "the file", {}))
        self.assertEqual(reading.gateway().create().read("a"), b"the file")
        acting = self.serve(MADE, cut)
        with self.assertRaises(CutError):
            acting.gateway().create().edit("a", "1", "2")
        self.assertEqual(len(acting.asked), 2)

    def test_a_command_that_runs_on_at_another_gateway_is_found(self):
        lines = [{"type": "stdout", "offset": 0, "data": "all"}, {"type": "exit", "exit": {"exec_id": "e-1", "reason": "exited", "code": 0}}]
        script = self.serve(MADE, problem(503, "unavailable", exec_id="e-1"), (200, "".join(json.dumps(line) + "\n" for line in lines), {}))
        self.assertEqual(script.gateway().create().exec("x").stdout, "all")
        self.assertIn("GET /api/v1/sandboxes/job-17/processes/e-1/output?", script.asked[2])

    def test_a_gateway_that_is_closed(self):
        script = Script(ME)
        port = script.port
        script.close()
        with self.assertRaisesRegex(UnreachableError, "no gateway answers"):
            script.gateway(0).whoami()
        tries = []

        def token():
            tries.append(1)
            if len(tries) == 2:
                self.serve(ME, port=port)
            return "t"

        self.assertEqual(Gateway(f"http://127.0.0.1:{port}", token).whoami(), {"tenant": "acme"})
        self.assertEqual(len(tries), 2)

    def test_an_answer_that_is_cut_off_or_of_no_gateway(self):
        cut = self.serve(MADE, (200, '{"type": "file", "path": "a"}\n', {"Content-Length": 100, "Connection": "close"}))
        with self.assertRaises(CutError):
            cut.gateway().create().glob("*")
        short = self.serve(MADE, (200, '{"type": "file", "path": "a"}\n', {}))
        with self.assertRaises(CutError):
            short.gateway().create().glob("*")
        with self.assertRaisesRegex(UnreachableError, "no gateway: 404"):
            self.serve((404, "<html>", {"Content-Type": "text/html"})).gateway(0).whoami()

    def test_a_class_that_is_not_known_is_a_problem(self):
        with self.assertRaises(ProblemError) as caught:
            self.serve(problem(418, "of_tomorrow")).gateway().whoami()
        self.assertEqual((type(caught.exception), caught.exception.kind), (ProblemError, "of_tomorrow"))

    def test_the_backend_raises_what_no_file_is_the_reason_of(self):
        box = SandboxBackend(self.serve(MADE, problem(401, "unauthenticated")).gateway().create())
        for call in [
            lambda: box.ls("/"), lambda: box.read("/a"), lambda: box.write("/a", ""), lambda: box.edit("/a", "b", "c"), lambda: box.delete("/a"),
            lambda: box.grep("a"), lambda: box.glob("a"), lambda: box.execute("a"), lambda: box.download_files(["/a"]), lambda: box.upload_files([("/a", b"")]),
        ]:  # fmt: skip
            self.assertRaises(errors.UnauthenticatedError, call)

    def test_what_is_missing_is_named(self):
        self.assertRaisesRegex(PodagentError, "is no address", Gateway, "gateway.example.com", "t")
        environment = {name: os.environ.pop(name) for name in ["PODAGENT_GATEWAY", "PODAGENT_GATEWAY_TOKEN"]}
        try:
            self.assertRaisesRegex(PodagentError, "PODAGENT_GATEWAY", Gateway)
            self.assertRaisesRegex(PodagentError, "PODAGENT_GATEWAY_TOKEN", Gateway, "http://x")
        finally:
            os.environ.update(environment)
