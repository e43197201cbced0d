#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores the names that `accuracy -N FILE` wrote. usage: names.py FILE DIRECTORY STRIPPED

Of a file whose unstripped copy lies in DIRECTORY/.build-id, the right name is what `addr2line -i`
reads from the copy's DWARF (the outermost of the inlined functions: the one that owns the code), or
a symbol of the copy's that covers the very address (`readelf -s`), where DWARF knows none or the
symbol is another name of the same code. Other files (the system's, stripped) are only counted: named
or not; a file whose path begins with STRIPPED must have its copy. A compiler's part of a function (.cold,
.part.0, .isra.0, .constprop.0) counts as the function. A PLT entry is NAME@plt, by objdump.
"""
import collections
import os
import re
import subprocess
import sys

PART = re.compile(r"\.(cold|part|isra|constprop|lto_priv)(\.\d+)*")


def base(name):
    return PART.sub("", name)


def dwarf_names(path, addresses):
    """address -> the outermost function's name, or None"""
    p = subprocess.run(["addr2line", "-a", "-f", "-i", "-e", path],
                       input="".join(f"{a:#x}\n" for a in addresses), capture_output=True, text=True,
                       check=True)
    out, current = {}, None
    lines = p.stdout.splitlines()
    i = 0
    while i < len(lines):
        if re.fullmatch(r"0x[0-9a-f]+", lines[i]):
            current = int(lines[i], 16)
            i += 1
            continue
        if not lines[i + 1].startswith("??"):  # a source line: from DWARF, not guessed from symbols
            out[current] = lines[i]
        i += 2
    return out


def symbols(path):
    """{(begin, end, name)} of the functions and PLT entries"""
    p = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True)
    out = set()
    for line in p.stdout.splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] in ("FUNC", "IFUNC") and f[6] != "UND" and int(f[2], 0):
            out.add((int(f[1], 16), int(f[1], 16) + int(f[2], 0), f[7].partition("@")[0]))
    return out | plt_entries(path)


def plt_entries(path):
    """[(begin, end, NAME@plt)] as objdump labels them"""
    p = subprocess.run(["objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", path],
                       capture_output=True, text=True, check=False)  # fails where there is no PLT
    labels = re.findall(r"^([0-9a-f]+) <([^>]+@plt)>:$", p.stdout, re.MULTILINE)
    return {(int(at, 16), int(at, 16) + 16, name) for at, name in labels}


def main():
    file, directory, stripped = sys.argv[1:]
    lacking = set()
    by_file = collections.defaultdict(list)
    with open(file, encoding="utf-8") as f:
        for line in f:
            build_id, address, count, path, name = line.rstrip("\n").split("\t")
            by_file[build_id].append((int(address, 16), int(count), path, name))
    right = wrong = unnamed = nobody = other = other_named = 0
    for build_id, seen in sorted(by_file.items()):
        full = os.path.join(directory, ".build-id", build_id[:2], build_id[2:] + ".debug")
        if not os.path.exists(full):
            other += sum(c for _, c, _, _ in seen)
            other_named += sum(c for _, c, _, n in seen if n != "-")
            lacking |= {p for _, _, p, _ in seen if p.startswith(stripped)}
            continue
        dwarf = dwarf_names(full, [a for a, _, _, _ in seen])
        table = symbols(full)
        for address, count, path, name in seen:
            covering = {n for b, e, n in table if b <= address < e}
            truth = {base(n) for n in covering}
            if address in dwarf and base(dwarf[address]) not in truth:
                truth = {base(dwarf[address])}
            if name == "-" and not truth:
                nobody += count
            elif name == "-":
                unnamed += count
                print(f"    unnamed: {path}+{address:x}: {sorted(truth)}")
            elif base(name) in truth:
                right += count
            else:
                wrong += count
                print(f"    wrong: {path}+{address:x}: {name}, should be {sorted(truth)}")
    whole = right + wrong + unnamed
    share = [100 * x / whole if whole else 0 for x in (right, wrong, unnamed)]
    print(f"    names of {whole} frames in stripped files: right {share[0]:.3f}%, wrong {share[1]:.3f}%, "
          f"unnamed {share[2]:.3f}% (no tool has a name: {nobody}); in files without an unstripped copy: "
          f"{other_named} of {other} frames named")
    for path in sorted(lacking):
        print(f"    not judged: {path} has no unstripped copy in {directory}")
    return 1 if wrong or lacking else 0


if __name__ == "__main__":
    sys.exit(main())
