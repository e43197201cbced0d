#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make check-gpu` runs on a GPU, run on the simulated one, so that it is known to work before a
# machine with a GPU is at hand; and its bundle. Its one case without a counterpart here, a profiler
# of the job's own, skips itself.
. "$(dirname "$0")/lib.sh"
trap finish EXIT

# To its end, with results, joins and overhead: how many steps are found depends on who else is here.
harness() {
	python3 tests/gpu/gpu_check.py "$B" --sim >"$WORK/check.log" 2>&1
	grep -E '^not ok' "$WORK/check.log" | sed 's/^/# /'
	tail -n 1 "$WORK/check.log" | grep -qE '^[0-9]+ passed, [0-9]+ failed, 1 skipped$' &&
		! grep -E '^not ok' "$WORK/check.log" | grep -vq 'steps found of'
}
bundle() {
	tools/gpu-bundle.sh "$B" "$WORK/bundle" >"$WORK/bundle.log" 2>&1
}
starts() {
	env -i PATH="$PATH" "$WORK/bundle/bin/sysom" --version >/dev/null &&
		env -i PATH="$PATH" "$WORK/bundle/bin/sysomd" --version >/dev/null
}
ok "the GPU check passes on the simulated GPU" harness
ok "its bundle is made, and small enough" bundle
ok "the bundle's programs start without our environment" starts
ok "with the libraries beside them" grep -q "$WORK/bundle/.*lib/" <(ldd "$WORK/bundle/bin/sysomd")
