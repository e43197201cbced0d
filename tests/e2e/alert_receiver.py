#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes POSTs as Alertmanager does and writes each alert as one line of JSON.

    alert_receiver.py PORT FILE [refuse]    refuse: answers 503 until FILE.open exists; 4xx never
"""
import http.server
import json
import os
import sys

PORT, FILE = int(sys.argv[1]), sys.argv[2]
REFUSE = sys.argv[3:] == ["refuse"]
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if REFUSE and not os.path.exists(FILE + ".open"):
            with open(FILE + ".refused", "a", encoding="ascii") as f:
                f.write("x\n")
            self.answer(503)
            return
        try:
            alerts = json.loads(body)
            assert isinstance(alerts, list) and self.headers["Content-Type"] == "application/json"
            for a in alerts:  # what Alertmanager's v2 API asks for
                assert all(isinstance(v, str) for v in {**a["labels"], **a["annotations"]}.values())
                assert a["labels"]["alertname"]
        except (ValueError, KeyError, AssertionError) as e:
            with open(FILE + ".bad", "a", encoding="utf-8") as f:
                f.write(f"{e!r} {body!r}\n")
            self.answer(400)
            return
        with open(FILE, "a", encoding="utf-8") as f:
            for a in alerts:
                f.write(json.dumps(a) + "\n")
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
