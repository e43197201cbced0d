#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slurm's TaskProlog, for clusters without the SPANK plugin: loads sysom's preload into each task.
# `SYSOM_DISABLE=1` in a job's environment keeps it out. A job ends with its verdict if the last
# line of its script is `sysom verdict`.
preload=${SYSOM_PRELOAD:-/usr/lib/sysom/libsysom_preload.so}
[ -z "${SYSOM_DISABLE:-}" ] || exit 0
case ${LD_PRELOAD:-} in *libsysom_preload.so*) exit 0 ;; esac
if [ -r "$preload" ]; then
	echo "export LD_PRELOAD=$preload${LD_PRELOAD:+:$LD_PRELOAD}"
else
	logger -t sysom -p user.warning -- "$preload is not there: job ${SLURM_JOB_ID:-} runs untraced" 2>/dev/null
fi
exit 0
