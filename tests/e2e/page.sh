# SPDX-License-Identifier: Apache-2.0
# page.sh - the commands that a page prints, for tests that run them as they stand there. Source it.
# Lines that set HOST or IMAGE are left out: these are the reader's to choose, and the test's.
page_block() { # page heading N: the Nth block of commands below that heading
	awk -v heading="$2" -v want="$3" '/^##* /{inside = $0 ~ "^##* " heading "$"} !inside {next}
		/^    /{if (!block) n++; block = 1; if (n == want && !/^    (HOST|IMAGE)=/) print substr($0, 5)}
		!/^    /{block = 0}' "$1"
}
# The lines of a block that a pattern fits, into a file; the block may have no line that fits none of the patterns.
page_lines() { # page heading N pattern...: a file $WORK/lines.K for the Kth pattern
	local block k=0 pattern rest
	block=$(page_block "$1" "$2" "$3" | grep -v '^#')
	rest=$block
	shift 3
	for pattern in "$@"; do
		k=$((k + 1))
		grep -E -- "$pattern" <<<"$block" >"$WORK/lines.$k" || { echo "# no command fits $pattern"; return 1; }
		rest=$(grep -vE -- "$pattern" <<<"$rest")
	done
	[ -z "$rest" ] || { echo "# not run: $rest"; return 1; }
}
