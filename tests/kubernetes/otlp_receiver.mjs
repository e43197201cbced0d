// SPDX-License-Identifier: Apache-2.0
// A receiver of OTLP metrics: decodes what is posted by OpenTelemetry's own definitions, and writes each request as a
// line of JSON. Usage: otlp_receiver.mjs PORT FILE [TOKEN]
// While FILE.refuse is there, it answers with the status that this file holds.
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

import protobuf from "protobufjs";

const [port, file, token] = process.argv.slice(2);
const base = path.dirname(createRequire(import.meta.url).resolve("@opentelemetry/otlp-grpc-exporter-base/package.json"));
const protos = path.join(base, "build/protos");
const root = new protobuf.Root();
root.resolvePath = (from, to) => path.join(protos, to);
root.loadSync("opentelemetry/proto/collector/metrics/v1/metrics_service.proto");
const Request = root.lookupType("opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest");

http.createServer((req, res) => {
	const parts = [];
	req.on("data", (d) => parts.push(d));
	req.on("end", () => {
		const refuse = fs.existsSync(`${file}.refuse`) ? Number(fs.readFileSync(`${file}.refuse`)) : 0;
		const answer = (status) => {
			if (status !== 200)
				fs.appendFileSync(`${file}.refused`, `${status}\n`);
			res.writeHead(status, { "Content-Type": "application/x-protobuf" }).end();
		};
		if (refuse)
			return answer(refuse);
		if (token && req.headers.authorization !== `Bearer ${token}`)
			return answer(401);
		if (req.method !== "POST" || req.url !== "/v1/metrics" || req.headers["content-type"] !== "application/x-protobuf")
			return answer(404);
		try {
			const got = Request.toObject(Request.decode(Buffer.concat(parts)), { longs: String, enums: String, json: true });
			fs.appendFileSync(file, `${JSON.stringify(got)}\n`);
			answer(200);
		} catch (e) {
			fs.appendFileSync(`${file}.bad`, `${e}\n`);
			answer(400);
		}
	});
}).listen(Number(port), "127.0.0.1");
