# SPDX-License-Identifier: Apache-2.0
LIBS += base http
base_SRCS := $(call in,base,buf idmap json_text keyed replace text) \
	$(call in,base/daemon,config dirs foreign log loop peer quota realtime service watchdog) \
	$(call in,base/http,http_answer http_hosts http_query idle prometheus)
base_LDLIBS := -lyaml -ljansson
http_SRCS := base/http/http_server.c
http_NEEDS := base
http_LDLIBS := -lmicrohttpd

$(call unit,base,test_keyed test_probe test_peer test_buf test_config test_loop test_idle test_http \
	test_watchdog test_quota test_text test_utf8 test_replace test_json_text test_prometheus)
$(call unit,http,test_http_server)
$(call fuzz,base,fuzz_config)
