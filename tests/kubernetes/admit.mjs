// SPDX-License-Identifier: Apache-2.0
//
// usage: node admit.mjs POLICIES.yaml POD.yaml [LEVEL]
// Prints the Pod as the admission policy leaves it, in a namespace of that Pod Security level.
import fs from "node:fs";
import yaml from "js-yaml";
import { admit } from "./policy.mjs";

const [policies, pod, level] = process.argv.slice(2);
const policy = yaml.loadAll(fs.readFileSync(policies, "utf8")).find((o) => o?.kind === "MutatingAdmissionPolicy");
console.log(yaml.dump(admit(policy, yaml.load(fs.readFileSync(pod, "utf8")),
	level && { "pod-security.kubernetes.io/enforce": level })));
