#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests that need a GPU, torch and CUDA. usage: run.sh BUILD (its bin/ and lib/). Prints TAP, then
# figures for docs/MEASUREMENTS.md, then `N passed, N failed, N skipped`.
set -u
B=$(cd "$1" && pwd)
here=$(dirname "$0")
for python in ${PYTHON:-} python3 /usr/bin/python3; do
	if "$python" -c 'import torch,sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
		exec "$python" "$here/gpu_check.py" "$B"
	fi
done
echo "ok 1 - GPU tests # SKIP no CUDA GPU with torch on this machine"
echo "0 passed, 0 failed, 1 skipped"
