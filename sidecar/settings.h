/* SPDX-License-Identifier: Apache-2.0
 * settings.h - sysomd's configuration as its parts read it. The table in sysomd.c gives each field
 * its key, default, bounds and meaning. Settings do not change after the start. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/http/http_settings.h"
#include "base/metrics/otlp_export.h"
#include "wire/codec.h"
#include "wire/link/tls_settings.h"

#define NODE_PATH_BYTES 256

struct settings {
	char socket_path[NODE_PATH_BYTES], control_path[NODE_PATH_BYTES],
	    state_dir[NODE_PATH_BYTES];
	struct http_settings http;
	char uplink_url[NODE_PATH_BYTES], node_name[WIRE_TEXT_BYTES];
	struct tls_settings tls;
	char tls_name[NODE_PATH_BYTES];
	struct otlp_settings otlp;
	uint64_t recorder_memory_bytes, recorder_file_bytes;
	uint64_t spool_bytes, spool_age_ns;
	uint64_t beat_ns, beat_suspect_ns, sketch_ns;
	bool sketch_symbols;
	int log_level, roofline_mode, peers_mode;
	uint64_t learn_min, learn_max, persist_n, persist_m;
	double tail_mads, floor_ratio;
	uint64_t window_margin, window_steps, window_length_ns, window_records;
	double window_burst, window_per_minute, asked_per_minute;
	uint64_t hold_bytes;
	uint64_t stall_ns;
	uint64_t requests_ttft_ns, requests_tpot_ns; /* objectives */
	bool canary, canary_realtime, node_peers;
	bool automatic_steps;
	char record_analysis[NODE_PATH_BYTES];
	uint64_t record_analysis_bytes;
	/* CPU stacks */
	int sampler_mode; /* enum sampler_mode, the best to try */
	uint64_t sampler_rate_hz, sampler_fraction, sampler_period_ns, sampler_off_cpu_min_ns;
	bool sampler_off_cpu, sampler_python, sampler_all, sampler_wide;
	/* symbol files for the aggregator */
	char uplink_http[NODE_PATH_BYTES], uplink_http_ca[NODE_PATH_BYTES],
	    uplink_http_token[NODE_PATH_BYTES];
	uint64_t symbols_rate, symbols_per_day;
	bool symbols_offer;
	/* OS signals */
	bool os_signals, os_bpf;
	double os_bpf_budget; /* percent of the time of all CPUs */
	/* GPU telemetry */
	bool gpu_on;
	uint64_t gpu_period_ns;
	char gpu_library[NODE_PATH_BYTES];
	uint64_t ras_port; /* 0: off */
	char proc_root[NODE_PATH_BYTES], sys_root[NODE_PATH_BYTES];
};
