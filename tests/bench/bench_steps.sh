#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boundary precision and recall of the automatic step detector: bench_steps.sh BUILD_DIR
exec "${1:-build/gcc}/bench/bench_steps"
