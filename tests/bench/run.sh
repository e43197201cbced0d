#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All speed and memory figures, each beside its peer or budget (docs/MEASUREMENTS.md says how to read
# them). usage: run.sh BUILD
set -u
B=$1
cd "$(dirname "$0")/../.." || exit 1
echo "# $(date -u +%Y-%m-%dT%H:%MZ) $(uname -sr) $(nproc) CPUs: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
bad=0
section() { # title command...
	echo
	echo "== $1"
	shift
	"$@" || { echo "   failed: $*"; bad=1; }
}
section "launch wrapper: budget two counter reads + 15 ns; NCCL wrapper: budget 150 ns" "$B/bench/bench_launch"
section "spans: budget 3 us of a Python function, 1 us of an NVTX range" python3 tests/bench/python_spans.py "$B"
section "the same call under the peers" tests/bench/peers.sh "$B"
section "ring" "$B/bench/bench_ring"
section "drain to detect: budget 5 M events/s per core, memory 100 MB with 8 ranks" "$B/bench/bench_drain"
section "window codec: budget 3 bytes per stored event" "$B/bench/bench_codec"
section "OS signals: BPF programs and reading" "$B/bench/bench_os_signals"
section "ingest" "$B/bench/bench_ingest"
section "2,000 dials at once: budget 15 s on two cores, with mutual TLS" tests/bench/dials.sh "$B"
section "replay of Kineto JSON beside Python's own parser; start of the command line" python3 tests/bench/cli.py "$B"
section "store and HTTP: 50 ms a list of 100,000 incidents, 10 ms for /healthz" "$B/bench/bench_store"
section "symbols: 1 GB file, 170,000 Build IDs" "$B/bench/bench_symbols"
section "sysomd without ranks" tests/bench/idle.sh "$B"
section "uploaded share and sysomd's own cost, whole flow" tests/bench/upload.sh "$B"
exit $bad
