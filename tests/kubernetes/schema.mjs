// SPDX-License-Identifier: Apache-2.0
//
// Holds Kubernetes objects against the models that kubernetes-models makes from Kubernetes' own
// description: its validators for what is required and how values look, and its types, through the
// TypeScript compiler, for fields that do not exist.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import ts from "typescript";

const here = path.dirname(fileURLToPath(import.meta.url));

function model(object) {
	const group = object.apiVersion.includes(".coreos.com/") ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
	return `${group}/${object.apiVersion}/${object.kind}`;
}
async function invalid(object) {
	const file = path.join(here, "node_modules", `${model(object)}.js`);
	if (!fs.existsSync(file)) return [`no such kind: ${object.apiVersion} ${object.kind}`];
	const { [object.kind]: Class } = await import(pathToFileURL(file));
	try {
		new Class(object).validate();
		return [];
	} catch (error) {
		return [error.message];
	}
}
function unknown(objects) {
	const dir = fs.mkdtempSync(path.join(here, "node_modules", ".check-"));
	const file = path.join(dir, "objects.mts");
	fs.writeFileSync(file, objects.map((o, i) =>
		`import { I${o.kind} as T${i} } from "${model(o)}";\nexport const o${i}: T${i} = ${JSON.stringify(o)};\n`).join(""));
	try {
		const program = ts.createProgram([file], { noEmit: true, strict: true, skipLibCheck: true, types: [],
			target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext });
		return ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, " "));
	} finally {
		fs.rmSync(dir, { recursive: true });
	}
}
// What is wrong with these objects, a line each.
export async function faults(objects) {
	const lines = (await Promise.all(objects.map(async (o) =>
		(await invalid(o)).map((line) => `${o.kind} ${o.metadata?.name}: ${line}`)))).flat();
	return [...lines, ...(lines.length ? [] : unknown(objects))];
}
