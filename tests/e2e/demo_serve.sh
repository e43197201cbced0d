#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo of a serving engine, as make demo MIX=serve runs it: it says how requests fare, finds the fault that its
# seed chose, and writes the trace with the requests' spans.
# needs: bpf
# quiet: whoever takes the CPUs from a worker makes it slow as well
. "$(dirname "$0")/lib.sh"
seed=1
run() { SEED=$seed SECONDS_LONG=50 SIM_LIB=$PWD/$B/lib/sim tools/demo-serve.sh >"$WORK/demo.log" 2>&1; }
said() { grep -q "$1" "$WORK/demo.log"; }
ok "the demo ends with its incident" run
sed -n 's/^demo: /# /p' "$WORK/demo.log"
ok "it shows the requests and their latency" grep -Eq '^serve@[0-9]+ +[0-9]+ .* ms ' "$WORK/demo.log"
rank=$(sed -n 's/.*the engine had: [a-z]* on worker \([0-9]*\),.*/\1/p' "$WORK/demo.log")
ok "the verdict blames the rank that had the fault" said "verdict   rank $rank is slow because "
ok "and shows a slow step" said "^  example   step "
spans() { strings "$PWD/build/demo/serve-$seed/incident.pftrace" | grep -q "$1"; }
ok "the trace has the engine's spans" spans 'ModelRunner::Forward'
ok "and its kernels" spans 'flash_attention_kernel'
[ $tap_failed = 0 ] || tail -n 20 "$WORK/demo.log" | cut -c1-200 | sed 's/^/# /'
finish
