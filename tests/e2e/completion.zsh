# SPDX-License-Identifier: Apache-2.0
# completion.zsh DIR - what zsh offers, with DIR's completions, at the end of each line of standard input, in one
# line each. zsh completes on a terminal only, so another zsh has one.
if [[ -n $INNER ]]; then
	unset INNER
	PS1= PROMPT_EOL_MARK= LISTMAX=1000000 # it never asks before it lists
	unset zle_bracketed_paste
	stty -onlcr -echo
	fpath=($DIR $fpath)
	autoload -Uz compinit
	compinit -u -D
	compadd() { # says what the real one adds
		if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
			local -a hits
			builtin compadd -A hits "$@"
			print -lr -- $hits
		fi
		builtin compadd "$@"
	}
	edge() { print -rn -- $'\1' }
	offer() { compprefuncs=(edge) comppostfuncs=(edge); zle list-choices; zle kill-whole-line }
	zle -N offer
	bindkey '^I' offer
	print -rn -- $'\1'
	return
fi
zmodload zsh/zpty
export INNER=1 DIR=$1 TERM=dumb
zpty z zsh -f -i
zpty -w z "source ${0:a}"
zpty -r z out $'*\1'
while IFS= read -r line; do
	zpty -w -n z $line$'\t'
	zpty -r z out $'*\1*\1' || exit 1
	out=${${out%$'\1'}##*$'\1'}
	print -r -- ${=out//$'\r'/}
done
zpty -d z
