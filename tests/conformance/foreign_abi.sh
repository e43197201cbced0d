#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# foreign/ beside the CUDA toolkit's own headers: sizes, offsets, values, signatures.
include=${CUDA_HOME:-/usr/local/cuda}/include
cc=${CC:-cc}
if [ ! -e "$include/cupti.h" ] || [ ! -e "$include/nccl.h" ] || [ ! -e "$include/nvtx3/nvToolsExt.h" ]; then
	echo "ok 1 - foreign declarations agree with the CUDA headers # SKIP needs cuda"
	exit 0
fi
out=$($cc -std=gnu11 -fsyntax-only -w -I. -I"$include" tests/conformance/foreign_abi.c 2>&1)
if [ $? = 0 ]; then
	echo "ok 1 - foreign declarations agree with the CUDA headers"
else
	echo "not ok 1 - foreign declarations agree with the CUDA headers"
	echo "$out" | head -40 | sed 's/^/# /'
fi
echo "1..1"
