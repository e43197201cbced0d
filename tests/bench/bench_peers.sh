#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What analysis/slow/peers finds and doesn't. $1: the build directory; $SEED; $ONLY: faults, several, lateness,
# healthy, speed; $TRIALS per arm.
set -eu
cd "$(dirname "$0")/../.."
export SYSOM_DATA=${SYSOM_DATA:-../shared/data}
"${1:-build/gcc}/bench/bench_peers" "${SEED:-1}" "${ONLY:-}"
[ -n "${ONLY:-}" ] || TRIALS=${OPS_TRIALS:-20} tests/bench/ops_study.py "${1:-build/gcc}"
