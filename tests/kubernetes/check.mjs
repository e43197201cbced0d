// SPDX-License-Identifier: Apache-2.0
//
// usage: node check.mjs VALUES.yaml VALUES.schema.json MANIFEST.yaml...
// TAP: the manifests and the values against their schemas, and what the admission policies among the
// manifests make of Pods.
import fs from "node:fs";
import path from "node:path";
import Ajv from "ajv";
import yaml from "js-yaml";
import { admit } from "./policy.mjs";
import { faults } from "./schema.mjs";

let count = 0, failed = 0;
async function ok(text, test) {
	let why = "";
	try {
		why = await test() || "";
	} catch (error) {
		why = error.stack;
	}
	failed += why ? 1 : 0;
	console.log(`${why ? "not " : ""}ok ${++count} - ${text}`);
	if (why) console.log(String(why).replace(/^/gm, "# "));
}
const differs = (got, wanted) => JSON.stringify(got) === JSON.stringify(wanted) ? "" :
	`got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`;

const [valuesFile, schemaFile, ...files] = process.argv.slice(2);
const load = (file) => yaml.loadAll(fs.readFileSync(file, "utf8")).filter((o) => o);
const objects = files.flatMap(load);
const find = (kind, name) => objects.find((o) => o.kind === kind && o.metadata.name === name);
const clone = (o) => structuredClone(o);

// ---- schemas ----
for (const file of files)
	await ok(`${path.basename(file)} is what Kubernetes takes`, async () => (await faults(load(file))).join("\n"));
await ok("a misspelt field is none that it takes", async () => {
	const o = clone(find("Pod", "training"));
	o.spec.initContainers[1].restartPolicyy = "Always";
	return /restartPolicyy/.test(await faults([o])) ? "" : "taken";
});
await ok("nor a value of another type, nor a Pod without containers", async () => {
	const a = clone(find("Pod", "training")), b = clone(a);
	a.spec.initContainers[1].securityContext.runAsUser = "root";
	delete b.spec.containers;
	return (await faults([a, b])).length === 2 ? "" : "taken";
});
const values = yaml.load(fs.readFileSync(valuesFile, "utf8"));
const sound = new Ajv().compile(JSON.parse(fs.readFileSync(schemaFile, "utf8")));
await ok("the chart's values fit their schema", () => sound(values) ? "" : JSON.stringify(sound.errors));
await ok("bad values do not", () => {
	const bad = [{ mode: "sidecars" }, { imaeg: {} }, { sysomd: { ...values.sysomd, uplinkUrl: "host" } },
		{ sysomd: { ...values.sysomd, state: "1 GB" } }, { daemonset: { ...values.daemonset, directory: "/a/../etc" } }];
	return bad.filter((b) => sound({ ...values, ...b })).map((b) => JSON.stringify(b)).join("\n");
});

// ---- what a sidecar must be, for the Pod's sake ----
const bytesOf = (text) => {
	const [, n, unit] = /^([0-9.]+) ?([A-Za-z]*)$/.exec(text);
	return n * { "": 1, kB: 1e3, MB: 1e6, GB: 1e9, Ki: 1 << 10, Mi: 1 << 20, Gi: 1 << 30, KiB: 1 << 10, MiB: 1 << 20, GiB: 1 << 30 }[unit];
};
function harms(pod) { // how a traced Pod could come to harm
	const out = [];
	const init = pod.spec.initContainers || [], all = [...init, ...pod.spec.containers];
	const daemon = init.find((c) => c.name === "sysomd");
	const volumes = pod.spec.volumes;
	if (init.findIndex((c) => c.name === "sysom-preload") > init.indexOf(daemon)) out.push("sysomd before the library");
	for (const v of volumes)
		if (v.secret && !v.secret.optional) out.push(`a Pod that waits for the Secret ${v.secret.secretName}`);
	if (daemon && daemon.restartPolicy !== "Always") out.push("no native sidecar: the Pod would not end");
	if (daemon && (daemon.startupProbe || daemon.readinessProbe)) out.push("a job that waits for sysomd");
	if (daemon && daemon.env.find((e) => e.name === "SYSOM_HTTP_LISTEN").value !== "") out.push("a port of the host");
	for (const list of [all.map((c) => c.name), volumes.map((v) => v.name), ...all.map((c) => (c.volumeMounts || []).map((m) => m.mountPath))])
		if (new Set(list).size !== list.length) out.push(`twice in ${list}`);
	for (const m of all.flatMap((c) => c.volumeMounts || []))
		if (!volumes.some((v) => v.name === m.name)) out.push(`no volume ${m.name}`);
	for (const c of pod.spec.containers)
		if (!c.volumeMounts.find((m) => m.name === "sysom").readOnly) out.push("the job may write to the library");
	if (daemon) {
		const set = (name) => bytesOf(daemon.env.find((e) => e.name === name).value);
		const state = volumes.find((v) => v.name === "sysom-state").emptyDir.sizeLimit;
		if ((set("SYSOM_SPOOL_BYTES") + set("SYSOM_RECORDER_FILES")) * 1.2 > bytesOf(state)) out.push("files that evict the Pod");
		if (volumes.find((v) => v.name === "sysom").emptyDir.medium !== "Memory") out.push("the socket on a disk");
	}
	return out;
}
await ok("the training Pod can't come to harm", () => harms(find("Pod", "training")).join("\n"));

// ---- the policies ----
const sidecar = find("MutatingAdmissionPolicy", "sysom-sidecar"), node = find("MutatingAdmissionPolicy", "sysom-node");
const labels = { "sysom.io/trace": "enabled" };
function pod(spec = {}, more = {}) {
	return { apiVersion: "v1", kind: "Pod", metadata: { name: "p", labels: { ...labels, ...more } },
		spec: { containers: [{ name: "main", image: "train", resources: { limits: { "nvidia.com/gpu": "8" } } }], ...spec } };
}
const main = (env, more = {}) => ({ name: "main", image: "train", ...(env ? { env } : {}), ...more });
const value = (c, name) => c.env.filter((e) => e.name === name).at(-1)?.value;
const ours = "/sysom/$LIB/libsysom_preload.so";
const admitted = [];
async function traced(text, before, check, namespaceLabels) {
	await ok(text, () => {
		const after = admit(sidecar, before, namespaceLabels);
		admitted.push(after);
		return [...harms(after), check ? check(after) : ""].filter((s) => s).join("\n");
	});
}
async function untouched(text, before, namespaceLabels, policy = sidecar) {
	await ok(text, () => differs(admit(policy, before, namespaceLabels), before));
}

await traced("a Pod gets volumes, sidecar and library", pod(), (p) =>
	differs([p.spec.initContainers.map((c) => c.name), p.spec.volumes.map((v) => v.name), p.spec.shareProcessNamespace,
		value(p.spec.containers[0], "LD_PRELOAD"), value(p.spec.containers[0], "SYSOM_SOCKET_PATH")],
	[["sysom-preload", "sysomd"], ["sysom", "sysom-state", "sysom-tls"], true, ours, "/sysom/sysomd.sock"]));
await traced("its sidecar is that of the training Pod", pod(), (p) => {
	const sorted = (o) => JSON.stringify(o, (k, v) => v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
	return sorted(p.spec.initContainers) === sorted(find("Pod", "training").spec.initContainers) ? "" : sorted(p.spec.initContainers);
});
await traced("LD_PRELOAD of its own comes first", pod({ containers: [main([{ name: "A", value: "1" },
	{ name: "LD_PRELOAD", value: "/usr/lib/libjemalloc.so" }, { name: "B", value: "2" }])] }), (p) =>
	differs(p.spec.containers[0].env.slice(0, 4), [{ name: "A", value: "1" },
		{ name: "LD_PRELOAD_OF_POD", value: "/usr/lib/libjemalloc.so" },
		{ name: "LD_PRELOAD", value: `$(LD_PRELOAD_OF_POD):${ours}` }, { name: "B", value: "2" }]));
await traced("also one from a ConfigMap", pod({ containers: [main([{ name: "LD_PRELOAD",
	valueFrom: { configMapKeyRef: { name: "m", key: "preload" } } }])] }), (p) =>
	differs(p.spec.containers[0].env.slice(0, 2), [{ name: "LD_PRELOAD_OF_POD",
		valueFrom: { configMapKeyRef: { name: "m", key: "preload" } } },
	{ name: "LD_PRELOAD", value: `$(LD_PRELOAD_OF_POD):${ours}` }]));
await traced("of two values the last counts, as without the policy", pod({ containers: [main([
	{ name: "LD_PRELOAD", value: "/a.so" }, { name: "LD_PRELOAD", value: "/b.so" }])] }), (p) =>
	differs([p.spec.containers[0].env[1], value(p.spec.containers[0], "LD_PRELOAD")],
		[{ name: "LD_PRELOAD_OF_POD", value: "/b.so" }, `$(LD_PRELOAD_OF_POD):${ours}`]));
await traced("without a GPU", pod({ containers: [main()] }));
await traced("musl: the path has $LIB, which its loader does not replace", pod({ containers: [main(null, { image: "alpine" })] }),
	(p) => value(p.spec.containers[0], "LD_PRELOAD").split(":").every((f) => f.includes("$LIB")) ? "" : "a path that musl finds");
await traced("two containers, one with mounts and variables", pod({ volumes: [{ name: "data", emptyDir: {} }], containers: [
	main([{ name: "SYSOM_JOB", value: "mine" }, { name: "POD_NAME", value: "x" }], { volumeMounts: [{ name: "data", mountPath: "/data" }] }),
	{ name: "log", image: "log" }] }, { "sysom.io/job": "other" }), (p) =>
	differs([p.spec.containers.map((c) => value(c, "SYSOM_JOB")), p.spec.containers.map((c) => value(c, "LD_PRELOAD")),
		p.spec.containers[0].env.filter((e) => e.name === "POD_NAME").length, p.spec.volumes[0].name, p.spec.containers[0].volumeMounts[0].name],
	[["mine", "other"], [ours, ours], 1, "data", "data"]));
await traced("each container knows its name, Pod and node", pod({ containers: [main(), { name: "log", image: "log" }] }), (p) =>
	differs(p.spec.containers.map((c) => [value(c, "CONTAINER_NAME"), ...["POD_NAMESPACE", "POD_NAME", "NODE_NAME"].map((name) =>
		c.env.find((e) => e.name === name).valueFrom.fieldRef.fieldPath)]),
	["main", "log"].map((name) => [name, "metadata.namespace", "metadata.name", "spec.nodeName"])));
await traced("a read-only root: nothing is written outside of the volumes", pod({ containers: [main(null,
	{ securityContext: { readOnlyRootFilesystem: true } })] }), (p) =>
	p.spec.initContainers.every((c) => c.securityContext.readOnlyRootFilesystem) ? "" : "a root that is written to");
await traced("init containers of its own keep their place", pod({ initContainers: [{ name: "fetch", image: "i" }] }), (p) =>
	differs(p.spec.initContainers.map((c) => c.name), ["fetch", "sysom-preload", "sysomd"]));
await traced("shareProcessNamespace: false stays", pod({ shareProcessNamespace: false }), (p) => differs(p.spec.shareProcessNamespace, false));
await traced("hostPID leaves no shared namespace", pod({ hostPID: true }), (p) => differs("shareProcessNamespace" in p.spec, false));
await traced("the job's name is that of the first known label", pod({}, { "batch.kubernetes.io/job-name": "b",
	"jobset.sigs.k8s.io/jobset-name": "a" }), (p) => differs(value(p.spec.containers[0], "SYSOM_JOB"), "a"));
const restricted = { "pod-security.kubernetes.io/enforce": "restricted" };
const safe = (p) => p.spec.initContainers.map(({ securityContext: s }) => s.runAsNonRoot && !s.allowPrivilegeEscalation &&
	!s.capabilities.add && s.capabilities.drop[0] === "ALL" && s.seccompProfile.type === "RuntimeDefault" && !s.appArmorProfile).every((x) => x);
await traced("a restricted namespace: the job's user, no privileges", pod({ securityContext: { runAsNonRoot: true, runAsUser: 1000 } }),
	(p) => safe(p) && p.spec.initContainers.every((c) => c.securityContext.runAsUser === 1000) ? "" : JSON.stringify(p), restricted);
await traced("a container's user goes before the Pod's", pod({ securityContext: { runAsUser: 1000 },
	containers: [main(null, { securityContext: { runAsUser: 2000 } })] }),
(p) => differs(p.spec.initContainers.map((c) => c.securityContext.runAsUser), [2000, 2000]), restricted);
await traced("and by label where Pod Security is set otherwise", pod({ securityContext: { runAsUser: 7 } }, { "sysom.io/privileges": "none" }),
	(p) => safe(p) ? "" : "privileges");
await untouched("restricted, and no user is named: untraced", pod(), restricted);
await untouched("a Pod that has its sidecar already", find("Pod", "training"));
await untouched("a Pod with something else at /sysom", pod({ volumes: [{ name: "d", emptyDir: {} }],
	containers: [main(null, { volumeMounts: [{ name: "d", mountPath: "/sysom" }] })] }));
await untouched("Windows", pod({ os: { name: "windows" } }));
await untouched("a Pod without the label", { ...pod(), metadata: { name: "p" } });
await ok("with a DaemonSet: its directory, and no sidecar", () => {
	const after = admit(node, pod());
	admitted.push(after);
	return [...harms(after), differs([after.spec.volumes, "initContainers" in after.spec, "shareProcessNamespace" in after.spec],
		[[{ hostPath: { path: "/var/lib/sysom/job", type: "DirectoryOrCreate" }, name: "sysom" }], false, false])].filter((s) => s).join("\n");
});
await untouched("where hostPath is not allowed: untraced", pod(), { "pod-security.kubernetes.io/enforce": "baseline" }, node);
await ok("all of these Pods are what Kubernetes takes", async () => (await faults(admitted)).join("\n"));

console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
