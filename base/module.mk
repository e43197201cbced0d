# SPDX-License-Identifier: Apache-2.0
LIBS += base
base_SRCS := $(call in,base,buf idmap json_text keyed text) \
	$(call in,base/daemon,config dirs foreign http_hosts http_query idle log loop peer prometheus quota \
		realtime service watchdog)
base_LDLIBS := -lyaml -ljansson

$(call unit,base,test_keyed test_probe test_peer test_buf test_config test_loop test_idle test_http \
	test_watchdog test_quota test_utf8 test_json_text test_prometheus)
$(call fuzz,base,fuzz_config)
