# SPDX-License-Identifier: Apache-2.0
# bash completion for sysom. Commands and options come from the program's own --help.
_sysom()
{
	local cur prev words cword
	_init_completion || return
	if [[ $cword -eq 1 ]]; then
		COMPREPLY=($(compgen -W "--help --version $("$1" --help 2>/dev/null |
			awk '/^  [a-z]/ && !/^  sysom /{print $1}')" -- "$cur"))
		return
	fi
	case $prev in
	-o | --output | --state-dir)
		_filedir
		return
		;;
	-s | --state)
		COMPREPLY=($(compgen -W "open closed" -- "$cur"))
		return
		;;
	esac
	case $cur in
	-*)
		COMPREPLY=($(compgen -W "$(_parse_help "$1" "${words[1]} --help")" -- "$cur"))
		return
		;;
	esac
	case ${words[1]} in
	run | record) [[ " ${words[*]:2} " == *" -- "* ]] && _command_offset 0 || _filedir ;;
	show | trace | report | flame | wait-incident)
		COMPREPLY=($(compgen -W "last $("$1" incidents --all --json 2>/dev/null |
			sed -n 's/.*"id": *"\([0-9a-f]*\)".*/\1/p')" -- "$cur"))
		;;
	replay)
		if [[ $cword -eq 2 ]]; then
			COMPREPLY=($(compgen -W "steps events ops timings window stacks links" -- "$cur"))
		else
			_filedir
		fi
		;;
	*) _filedir ;;
	esac
} &&
	complete -F _sysom sysom
