#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh - bash and zsh offer each command of `sysom --help`, each option of a command's help and the words
# that an option may have, and nothing else; also incidents' ids, files, and what the command behind `--` wants.
. "$(dirname "$0")/lib.sh"
PATH=$(realpath "$BIN"):$PATH
ok "an aggregator" stack_start "$WORK/stack"
for job in a b; do "$B/parts/aggregator_client" fault "$STACK_NNG" $job 8 5 >/dev/null; done
known() { IDS=$(api incidents '.incidents[].id') && [ "$(wc -w <<<"$IDS")" = 2 ]; }
ok "with two incidents" stack_wait 20 known
cat >"$WORK/bash.sh" <<'SH'
. /usr/share/bash-completion/bash_completion
. deploy/completion/sysom.bash
COMP_TYPE=9 COMP_KEY=9
while IFS= read -r COMP_LINE; do
	COMPREPLY=() COMP_POINT=${#COMP_LINE}
	read -ra COMP_WORDS <<<"${COMP_LINE//=/ = }"
	[[ $COMP_LINE == *[\ =] ]] && COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_sysom sysom "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	echo "${COMPREPLY[*]}"
done
SH
by_bash() { bash --norc "$WORK/bash.sh"; }
by_zsh() { zsh -f tests/e2e/completion.zsh "$PWD/deploy/completion"; }
cat >"$WORK/expect.py" <<'PY'
import re, subprocess, sys
def help_of(*words):
    return subprocess.run(["sysom", *words, "--help"], capture_output=True, text=True, check=True).stdout
def names(text):  # the first column of its first list
    return [m[1] for line in text.split("\nexamples:")[0].splitlines() if (m := re.match(r"  ([a-z][a-z-]*) ", line))]
def expect(line, words):
    print(line, *sorted(words), sep="\t")
commands = names(help_of())
kinds = names(help_of("replay"))
expect("sysom ", [*commands, "--help", "--version"])
expect("sysom replay ", kinds)
expect("sysom spans ", ["check", "compile"])
for at in [[c] for c in commands if c != "replay"] + [["replay", k] for k in kinds]:
    here, options = " ".join(["sysom", *at]), []
    for line in help_of(*at).partition("\noptions:\n")[2].splitlines():
        if not line.startswith("  ") or line.startswith("  sysom"):
            break
        head = re.split(r" {2,}", line.strip())[0]
        these = re.findall(r"(?<![\w|=\[-])--?[\w-]+", head)
        options += these
        for option in these if "|" in head else []:
            expect(f"{here} {option} ", head.split()[-1].split("|"))
            if option.startswith("--"):
                expect(f"{here} {option}=", head.split()[-1].split("|"))
    expect(f"{here} -", options)
expect("sysom run -- sysom replay ", kinds)
expect("sysom run -- cat READ", ["README.md"])
for line in ("trace --output", "trace -o", "record -o", "replay steps", "diff", "replay window --incident"):
    expect(f"sysom {line} READ", ["README.md"])
for command in "show", "trace", "report", "flame":
    expect(f"sysom {command} ", ["last", *sys.argv[1:]])
expect("sysom show l", ["last"])
expect("sysom trace --job ", [])
expect("sysom status ", [])
PY
same() { # shell: what it offers is what was expected
	cut -f 1 "$WORK/expected" | timeout 300 bash -c "$(declare -f "by_$1"); WORK=$WORK; by_$1" >"$WORK/$1.out" 2>"$WORK/$1.log"
	python3 - "$WORK/expected" "$WORK/$1.out" <<-'PY'
		import sys
		wanted = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
		offered = [sorted(line.split()) for line in open(sys.argv[2])]
		wrong = [(w[0], w[1:], o) for w, o in zip(wanted, offered) if w[1:] != o]
		for line, want, got in wrong[:10]:
		    print(f'# "{line}": lacks {sorted(set(want) - set(got))}, has also {sorted(set(got) - set(want))}')
		print(f"# {len(offered)} lines")
		sys.exit(bool(wrong) or len(wanted) != len(offered))
	PY
}
ok "what is to be offered" eval 'python3 "$WORK/expect.py" $IDS >"$WORK/expected" && [ $(wc -l <"$WORK/expected") -ge 70 ]'
ok "bash takes the file" bash -n deploy/completion/sysom.bash
if [ -e /usr/share/bash-completion/bash_completion ]; then
	ok "bash offers it" same bash
else
	skip "bash offers it" "needs file:/usr/share/bash-completion/bash_completion"
fi
if command -v zsh >/dev/null; then
	ok "zsh takes the file" zsh -n deploy/completion/_sysom
	ok "zsh offers it" same zsh
else
	skip "zsh offers it" "needs command:zsh"
fi
finish
