// SPDX-License-Identifier: Apache-2.0
//
// What an admission policy makes of a Pod, as the API server does it: variables in their order, then the
// JSON patch. The CEL is @bufbuild/cel's, plus Kubernetes' functions on lists; JSONPatch is a protobuf
// message, so its fields are checked.
import patches from "fast-json-patch";
import { CelScalar, celMethod, isCelError, listType, run } from "@bufbuild/cel";
import { createFileRegistry, fromJson, toJson } from "@bufbuild/protobuf";
import { file_google_protobuf_struct, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

const text = (name, number) => ({ name, number, label: "LABEL_OPTIONAL", type: "TYPE_STRING", jsonName: name });
const file = fromJson(FileDescriptorProtoSchema, {
	name: "jsonpatch.proto", syntax: "proto3", dependency: ["google/protobuf/struct.proto"],
	messageType: [{ name: "JSONPatch", field: [text("op", 1), text("path", 2), text("from", 3),
		{ name: "value", number: 4, label: "LABEL_OPTIONAL", type: "TYPE_MESSAGE",
			typeName: ".google.protobuf.Value", jsonName: "value" }] }],
});
const registry = createFileRegistry(file, () => file_google_protobuf_struct);

function position(list, wanted, last) {
	const at = [...list].reduce((found, value, i) => value === wanted && (last || found < 0) ? i : found, -1);
	return BigInt(at);
}
const listOfAny = listType(CelScalar.DYN);
const funcs = [
	celMethod("indexOf", listOfAny, [CelScalar.DYN], CelScalar.INT, function (v) { return position(this, v, false); }),
	celMethod("lastIndexOf", listOfAny, [CelScalar.DYN], CelScalar.INT, function (v) { return position(this, v, true); }),
];

// JSON numbers of a Kubernetes object are integers.
function native(value) {
	if (typeof value === "number") return BigInt(value);
	if (Array.isArray(value)) return value.map(native);
	if (value && typeof value === "object")
		return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, native(v)]));
	return value;
}
function evaluate(expression, bindings, what) {
	const value = run(expression, bindings, { registry, funcs });
	if (isCelError(value)) throw new Error(`${what}: ${value.message}`);
	return value;
}
function applies(policy, pod) {
	const { objectSelector, resourceRules } = policy.spec.matchConstraints;
	return Object.entries(objectSelector.matchLabels).every(([k, v]) => pod.metadata.labels?.[k] === v) &&
		resourceRules.some((r) => r.operations.includes("CREATE") && r.resources.includes("pods"));
}
// The Pod as it would be stored. namespaceLabels: those of its namespace.
export function admit(policy, pod, namespaceLabels) {
	if (!applies(policy, pod)) return pod;
	const namespaceObject = { metadata: namespaceLabels ? { labels: namespaceLabels } : {} };
	const variables = {};
	const bindings = { object: native(pod), namespaceObject, variables };
	for (const v of policy.spec.variables) variables[v.name] = evaluate(v.expression, bindings, v.name);
	let out = structuredClone(pod);
	for (const m of policy.spec.mutations) {
		const list = evaluate(m.jsonPatch.expression, bindings, "mutation");
		const operations = [...list].map((o) => toJson(registry.getMessage("JSONPatch"), o.message, { registry }));
		out = patches.applyPatch(out, operations, true).newDocument;
	}
	return out;
}
