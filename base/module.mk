# SPDX-License-Identifier: Apache-2.0
LIBS += base http
base_SRCS := $(call in,base,buf idmap keyed replace) $(call in,base/text,json_text text) \
	$(call in,base/daemon,config dirs foreign log loop misspelt peer quota realtime rights secret_file \
		service watchdog) \
	$(call in,base/http,http_address http_answer http_hosts http_query http_user idle prometheus)
base_LDLIBS := -lyaml -ljansson
http_SRCS := $(call in,base/http,http_access http_server http_tls http_tokens)
http_NEEDS := base
http_LDLIBS := -lmicrohttpd -lgnutls -lnettle

$(call unit,base,test_keyed test_probe test_peer test_buf test_config test_loop test_idle test_http \
	test_watchdog test_quota test_text test_utf8 test_replace test_json_text test_prometheus)
$(call unit,http,test_http_server)
$(call fuzz,base,fuzz_config)
