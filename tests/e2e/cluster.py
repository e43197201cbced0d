# SPDX-License-Identifier: Apache-2.0
"""What a page's commands of helm and kubectl would give a cluster, where there is none.

    cluster.py helm FILE install NAME CHART -n NAMESPACE [--create-namespace] [--set A.B=C,...]...   its values, as JSON
    cluster.py kubectl DIR [-n NAMESPACE] create namespace NAME
    cluster.py kubectl DIR [-n NAMESPACE] create secret generic NAME --from-file=[KEY=]FILE...   DIR/NAMESPACE/NAME/KEY
"""
import argparse
import json
import os
import re
import shutil
import sys


def helm(file, args):
    p = argparse.ArgumentParser()
    p.add_argument("verb", choices=["install"])
    p.add_argument("name")
    p.add_argument("chart")
    p.add_argument("-n", required=True)
    p.add_argument("--create-namespace", action="store_true")
    p.add_argument("--set", action="append", default=[])
    o = p.parse_args(args)
    assert os.path.exists(os.path.join(o.chart, "Chart.yaml")), o.chart
    values = {}
    for path, listed, text in (m for each in o.set for m in re.findall(r"([\w.]+)=(?:{([^}]*)}|([^,]*)),?", each)):
        at, names = values, path.split(".")
        for name in names[:-1]:
            at = at.setdefault(name, {})
        at[names[-1]] = listed.split(",") if listed else {"true": True, "false": False}.get(text, text)
    json.dump(values, open(file, "w"))


def kubectl(place, args):
    p = argparse.ArgumentParser()
    p.add_argument("-n", default="default")
    p.add_argument("verb", choices=["create"])
    p.add_argument("what", nargs="+")
    p.add_argument("--from-file", action="append", default=[])
    o = p.parse_args(args)
    if o.what[0] == "namespace":
        return os.makedirs(os.path.join(place, o.what[1]))
    assert o.what[:2] == ["secret", "generic"] and len(o.what) == 3, o.what
    secret = os.path.join(place, o.n, o.what[2])
    os.makedirs(secret)
    for each in o.from_file:
        key, _, file = each.rpartition("=")
        shutil.copy(file, os.path.join(secret, key or os.path.basename(file)))


{"helm": helm, "kubectl": kubectl}[sys.argv[1]](sys.argv[2], sys.argv[3:])
