#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a catalogue of spans with the source of its framework, which is read and never run.

    spans_check.py conf/spans/vllm.yaml /usr/lib/python3/dist-packages
    spans_check.py conf/spans/megatron.yaml ~/src/Megatron-LM

One line for each span: how many of its functions are there, inherited ones included. Below it, one line for each term
of a value that is not read: a parameter or an attribute that does not exist, a property, a container of another kind.
Where annotations end, so does what a reader can tell: such a value is open. A value is there if one of its terms is.
Exit status 1: a span has no function in the tree, or a value is not there. 2: nothing was compared."""
import argparse
import ast
import os
import re
import sys

import yaml

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *FUNCTIONS)
CONTAINERS = ("list", "tuple", "dict", "set", "str")
UNREAD = ("deque", "defaultdict", "OrderedDict", "Counter", "Tensor", "ndarray")  # no exact list, tuple or dict
NO_FIELDS = ("object", "ABC", "Generic", "Protocol", "Struct")  # bases that are elsewhere, and add no attribute
OPEN = [("", ast.Name("?"))]  # the types of what cannot be told


def statements(body):
    """Those of a module or a class, also in its branches."""
    for s in body:
        yield s
        if isinstance(s, (ast.If, ast.Try, ast.With)):
            for block in (s.body, getattr(s, "orelse", []), *(h.body for h in getattr(s, "handlers", []))):
                yield from statements(block)


def targets(s):
    return [ast.unparse(t) for t in getattr(s, "targets", [s.target] if isinstance(s, ast.AnnAssign) else [])]


def head(node):
    """A type's name: `list` of typing.List[int]."""
    name = node.name if isinstance(node, ast.ClassDef) else ast.unparse(node).partition("[")[0].rpartition(".")[2]
    return name.lower() if name.lower() in CONTAINERS else name


class Tree:
    def __init__(self, root):
        self.roots = [os.path.join(root, d) for d in ("", "python", "src")]
        self.modules = {}  # name -> whether it is a package, its statements

    def module(self, name):
        base = name.replace(".", "/")
        for path in [os.path.join(r, base + end) for r in self.roots for end in (".py", "/__init__.py")]:
            if name not in self.modules and os.path.isfile(path):
                with open(path, "rb") as f:
                    self.modules[name] = path.endswith("__init__.py"), list(statements(ast.parse(f.read(), path).body))
        return self.modules.get(name, (False, []))

    def find(self, module, name, depth=0):
        """(module, node) of the class, function or expression that a module's name means; None."""
        package, body = self.module(module)
        found = None
        for s in body if depth < 8 else ():
            if isinstance(s, DEFINITIONS) and s.name == name:
                found = module, s
            elif not found and isinstance(s, ast.ImportFrom) and {a.asname or a.name for a in s.names} & {name, "*"}:
                up = module.split(".")[:module.count(".") + 1 - s.level + package] if s.level else []
                asked = next((a.name for a in s.names if a.asname == name), name)
                found = self.find(".".join(up + ([s.module] if s.module else [])), asked, depth + 1)
            elif not found and isinstance(s, ast.Assign) and name in targets(s):
                found = self.find(module, s.value.id, depth + 1) if isinstance(s.value, ast.Name) else (module, s.value)
        return found

    def lineage(self, module, cls):
        """A class and its bases; None for one that is not in the tree."""
        yield module, cls
        for base in cls.bases:
            found = self.find(module, ast.unparse(base).partition("[")[0])
            if found and isinstance(found[1], ast.ClassDef) and found[1] is not cls:
                yield from self.lineage(*found)
            elif head(base) not in NO_FIELDS:
                yield None

    def function(self, module, path):
        """(module, node) of a function that is not abstract; None."""
        first, *names = path.split(".")
        at = self.find(module, first)
        for name in names:
            places = self.lineage(*at) if at and isinstance(at[1], ast.ClassDef) else [at]
            if name != "<locals>":
                at = next(((p[0], s) for p in places if p for s in reversed([*statements(getattr(p[1], "body", []))])
                           if isinstance(s, DEFINITIONS) and s.name == name), None)
        found = at and isinstance(at[1], FUNCTIONS) and not any(head(d) == "abstractmethod" for d in at[1].decorator_list)
        return at if found else None

    def types(self, module, annotation):
        """An annotation's alternatives but None, as (module, node)."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if annotation is None or isinstance(annotation, ast.Constant):
            return OPEN if annotation is None else []
        if isinstance(annotation, ast.BinOp):
            return self.types(module, annotation.left) + self.types(module, annotation.right)
        if head(annotation) in ("Optional", "Union") and isinstance(annotation, ast.Subscript):
            return [t for a in getattr(annotation.slice, "elts", [annotation.slice]) for t in self.types(module, a)]
        found = self.find(module, annotation.id) if isinstance(annotation, ast.Name) else None
        return [found] if found and isinstance(found[1], ast.ClassDef) else [(module, annotation)]

    def attribute(self, module, node, name):
        """The types of an object's attribute; a text that says why it is not read."""
        if not isinstance(node, ast.ClassDef):
            return f"{head(node)} has no {name}" if head(node) in CONTAINERS else OPEN
        lineage = list(self.lineage(module, node))
        for at, cls in filter(None, lineage):
            own = list(statements(cls.body))
            if any(isinstance(s, DEFINITIONS) and s.name == name for s in own):
                return f"{cls.name}.{name} is a property or a method"
            if any(head(b) == "NamedTuple" for b in cls.bases):
                return f"{cls.name} is a named tuple"
            for f in [None, *(s for s in own if isinstance(s, FUNCTIONS))]:
                for s in ast.walk(f) if f else own:
                    if (f"self.{name}" if f else name) in targets(s):
                        given = {a.arg: a.annotation for a in f.args.args} if f else {}
                        value = getattr(s.value, "id", None)  # of self.x = x: the parameter's
                        return self.types(at, getattr(s, "annotation", given.get(value)))
        return OPEN if None in lineage else f"{node.name} has no {name}"

    def term(self, module, function, text, item=None):
        """The types of what a term reads; a text that says why nothing. item: the types of what its path begins at."""
        form, first, rest = re.fullmatch(r"(?:(\w+)\()?(\w+)([^)]*)\)?", text).groups()
        a, types, names = function.args, item, rest.split(".")[1:]
        if item is None:
            given = {"return": function.returns, **{p.arg: p.annotation for p in a.posonlyargs + a.args + a.kwonlyargs}}
            if first not in given:
                return f"{function.name} has no parameter {first}"
            types = self.types(module, given[first])
        for name in names if item is None else [first, *names]:
            each = [self.attribute(*t, name) for t in types]
            types = [t for e in each if not isinstance(e, str) for t in e]
            if not types:
                return each[0] if each else OPEN
        bad = [head(n) for _, n in types if isinstance(n, ast.ClassDef) or head(n) in UNREAD]
        return f"{form}() does not read {bad[0]}" if form and bad else types

    def values(self, span, module, function):
        """(key, [(term, verdict)]) of each value that a span reads."""
        requests = span.get("requests", {})
        texts = {**span.get("work", {}), **{k: span[k] for k in ("request", "decode") if k in span}}
        texts.update({"requests": requests} if isinstance(requests, str) else {"in": requests["in"]} if requests else {})
        for key, text in texts.items():
            yield key, [(t, self.term(module, function, t)) for t in text.split(" + ")]
        if isinstance(requests, dict) and requests:
            of = [t for t in self.term(module, function, requests["in"]) if isinstance(t[1], ast.Subscript)]
            item = self.types(of[0][0], getattr(of[0][1].slice, "elts", [of[0][1].slice])[-1]) if of else OPEN
            for key in sorted(requests.keys() - {"in"}):
                yield key, [(requests[key], self.term(module, function, requests[key], item))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("catalogue")
    p.add_argument("tree", help="a directory with the framework's package, or with python/ or src/ above it")
    a = p.parse_args()
    tree, none, count = Tree(a.tree), 0, {"there": 0, "open": 0, "not there": 0}
    if not os.path.isdir(a.tree):
        p.error(f"{a.tree}: no such directory")
    try:
        with open(a.catalogue, encoding="utf-8") as f:
            spans = [s for s in yaml.safe_load(f)["spans"] if "functions" in s]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as e:
        p.error(f"{a.catalogue} is no catalogue: {e} (`sysom spans check` says more)")
    for span in spans:
        there = {name: found for name in span["functions"] if (found := tree.function(*name.split(":")))}
        none += not there
        print(f"{span['name']}: {len(there)} of {len(span['functions'])} functions" if there else
              f"{span['name']}: no function in this tree: {', '.join(span['functions'])}")
        for name, at in there.items():
            for key, terms in tree.values(span, *at):
                for text, verdict in terms:
                    if isinstance(verdict, str) or verdict == OPEN:
                        print(f"  {name.partition(':')[2]}: {key}: {text}: {'open' if verdict == OPEN else verdict}")
                read = [v for _, v in terms if not isinstance(v, str)]
                count["not there" if not read else "open" if all(v == OPEN for v in read) else "there"] += 1
    print(f"{len(spans) - none} of {len(spans)} spans; values: {', '.join(f'{n} {word}' for word, n in count.items())}")
    return 1 if none or count["not there"] else 0


if __name__ == "__main__":
    sys.exit(main())
