#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Recall and false positives of the roofline, both modes. $1: the build directory; $SEED: first seed.
set -eu
cd "$(dirname "$0")/../.."
export SYSOM_DATA=${SYSOM_DATA:-../shared/data}
exec "${1:-build/gcc}/bench/bench_roofline" "${SEED:-1}"
