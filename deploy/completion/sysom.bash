# SPDX-License-Identifier: Apache-2.0
# bash completion for sysom. Commands, options and their values come from the program's own --help.
_sysom_names() # of commands or kinds, from help
{
	awk '/^  [a-z]/ && !/^  sysom /{print $1}'
}
_sysom_incidents()
{
	"$1" incidents --all --json 2>/dev/null | grep -oE '"id": *"[0-9a-f]{8}"' | grep -oE '[0-9a-f]{8}'
}
_sysom()
{
	local cur prev words cword split help value i at
	_init_completion -s || return
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[1]} == @(run|record) && ${COMP_WORDS[i]} == -- ]]; then
			_command_offset $((i + 1))
			return
		fi
	done
	if [[ $cword -eq 1 ]]; then
		COMPREPLY=($(compgen -W "--help --version $("$1" --help 2>/dev/null | _sysom_names)" -- "$cur"))
		return
	fi
	at=("${words[1]}")
	[[ ${words[1]} == replay && $cword -gt 2 ]] && at+=("${words[2]}")
	# an option per line: its letter or "-", its name, what help calls its value
	help=$("$1" "${at[@]}" --help 2>/dev/null | sed -nE 's/^      /  -, /; s/^  (-.?), (--[a-z-]+)(\[[^ ]*)?( ([^ ]+))?.*/\1 \2 \5/p')
	value=$(awk -v option="$prev" '$1 == option || $2 == option {print $3}' <<<"$help")
	case $value in
	*'|'*)
		COMPREPLY=($(compgen -W "${value//|/ }" -- "$cur"))
		return
		;;
	FILE* | PATH)
		_filedir
		return
		;;
	DIR)
		_filedir -d
		return
		;;
	?*) return ;;
	esac
	$split && return
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$(awk '{print $2; if ($1 != "-") print $1}' <<<"$help")" -- "$cur"))
		return
	fi
	case ${words[1]} in
	run | record) COMPREPLY=($(compgen -W "--" -- "$cur")) ;;
	show | trace | report | flame) COMPREPLY=($(compgen -W "last $(_sysom_incidents "$1")" -- "$cur")) ;;
	diff)
		COMPREPLY=($(compgen -W "$(_sysom_incidents "$1")" -- "$cur"))
		_filedir
		;;
	preload) _filedir -d ;;
	spans) [[ $cword -eq 2 ]] && COMPREPLY=($(compgen -W "check compile" -- "$cur")) || _filedir ;;
	replay)
		if [[ $cword -eq 2 ]]; then
			COMPREPLY=($(compgen -W "$("$1" replay --help 2>/dev/null | _sysom_names)" -- "$cur"))
		else
			_filedir
		fi
		;;
	esac
} &&
	complete -F _sysom sysom
