#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: module:yaml
"""Every port of the manifests, default settings and units, and what guards it. Beyond this machine HTTP needs
tokens in TLS, and nodes need mutual TLS. On this machine the kernel names the user to HTTP."""
import copy
import glob
import os
import sys

import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402

HTTP = ("SYSOM_HTTP_TOKENS", "SYSOM_HTTP_CERTIFICATE", "SYSOM_HTTP_KEY")
NODES = ("SYSOM_TLS_CERT", "SYSOM_TLS_KEY", "SYSOM_TLS_CA")
DEFAULTS = {"sysomd": {"SYSOM_HTTP_LISTEN": "127.0.0.1:9470"},
            "sysom-aggregator": {"SYSOM_HTTP_LISTEN": "127.0.0.1:9472", "SYSOM_NNG_LISTEN": "tcp://127.0.0.1:9471"}}


def guard(address, setting, env):
    """What guards a listening address; None: nothing does."""
    host = address.removeprefix("tcp://").rpartition(":")[0]
    if address.startswith(("/", "ipc://")) or host in ("127.0.0.1", "[::1]", "localhost"):
        return "this machine alone"
    if "true" in (env.get("SYSOM_INSECURE"), env.get("SYSOM_HTTP_INSECURE")):
        return None
    needed = HTTP if setting == "SYSOM_HTTP_LISTEN" else NODES
    if not all(env.get(name) for name in needed):
        return None
    return "tokens in TLS" if needed is HTTP else "mutual TLS"


def ports_of(container):
    """(address, port, guard) of each port that one of our daemons opens."""
    program = os.path.basename((container.get("command") or ["?"])[0])
    env = {e["name"]: e.get("value") for e in container.get("env", [])}
    for setting, default in DEFAULTS.get(program, {}).items():
        address = env.get(setting, default)
        if address:  # "": no port
            yield address, int(address.rpartition(":")[2]), guard(address, setting, env)


def faults(spec, place, say=lambda text: None):
    """Ports of a Pod that nothing guards, or that it does not declare as its containers' ports."""
    out = []
    for c in spec.get("initContainers", []) + spec["containers"]:
        opened = list(ports_of(c))
        for address, port, how in opened:
            say(f"{place}, {c['name']}: {address}: {how}")
            if not how:
                out.append(f"{place}: {address} is open to everybody")
        beyond = {port for address, port, how in opened if how != "this machine alone"}
        declared = {p["containerPort"] for p in c.get("ports", [])}
        if os.path.basename((c.get("command") or ["?"])[0]) in DEFAULTS and beyond != declared:
            out.append(f"{place}: {sorted(beyond)} are open, {sorted(declared)} are declared")
    return out


def specs():
    for path in sorted(glob.glob("deploy/kubernetes/*.yaml")):
        for o in yaml.safe_load_all(open(path)):
            spec = o["spec"].get("template", o)["spec"] if o and o["kind"] in ("Pod", "StatefulSet", "DaemonSet") else None
            if spec:
                yield f"{os.path.basename(path)}, {o['kind']} {o['metadata']['name']}", spec


def settings(path, prefix=()):
    """The settings of a file, as its variables."""
    def flat(value, names):
        if isinstance(value, dict):
            for key, below in value.items():
                yield from flat(below, names + (str(key),))
        else:
            yield "SYSOM_" + "_".join(names).upper(), str(value).lower() if isinstance(value, bool) else str(value)
    return dict(flat(yaml.safe_load(open(path)), prefix))


found = 0
for place, spec in specs():
    lines = []
    bad = faults(spec, place, lines.append)
    found += len(lines)
    tap.ok(not bad, f"{place}: {len(lines)} ports", "\n".join(bad))
    print("".join(f"# {line}\n" for line in lines), end="")
tap.ok(found >= 3, f"the manifests have {found} ports")
for program in DEFAULTS:
    env = settings(f"conf/{program}.yaml")
    for name, default in DEFAULTS[program].items():
        how = guard(env[name], name, env)
        tap.ok(env[name] == default and how, f"{program} by default: {env[name]}: {how}", env[name])
    tap.ok({n for n in env if n.endswith("_LISTEN")} == set(DEFAULTS[program]), f"{program} has no other port")
for path in sorted(glob.glob("conf/*.socket") + glob.glob("conf/*.service")):
    listens = [line.partition("=")[2].strip() for line in open(path) if line.startswith("Listen")]
    addressed = [line for line in open(path) if "LISTEN=" in line or "--http-listen" in line or "--nng-listen" in line]
    tap.ok(all(address.startswith("/") for address in listens) and not addressed,
           f"{os.path.basename(path)}: {', '.join(listens) or 'no port'}", listens + addressed)

# What must be found: each way to leave a port open.
nodes = dict(specs())["daemonset.yaml, DaemonSet sysomd"]
for what, change in (("a port without tokens", lambda e: e["name"] != "SYSOM_HTTP_TOKENS"),
                     ("a port without TLS", lambda e: e["name"] != "SYSOM_HTTP_CERTIFICATE")):
    worse = copy.deepcopy(nodes)
    worse["containers"][0]["env"] = [e for e in worse["containers"][0]["env"] if change(e)]
    tap.ok(len(faults(worse, "x")) == 1, f"{what} is found", faults(worse, "x"))
worse = copy.deepcopy(nodes)
worse["containers"][0]["env"].append({"name": "SYSOM_HTTP_INSECURE", "value": "true"})
tap.ok(len(faults(worse, "x")) == 1, "and one with TLS switched off")
worse = copy.deepcopy(nodes)
del worse["containers"][0]["ports"]
tap.ok(len(faults(worse, "x")) == 1, "and one that is not declared")
sys.exit(tap.end())
