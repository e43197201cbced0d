# SPDX-License-Identifier: Apache-2.0
LIBS += base http
base_SRCS := $(call in,base,buf idmap keyed replace) $(call in,base/text,demangle json_text text) \
	$(call in,base/daemon,config dirs foreign log loop misspelt peer quota realtime rights secret_file \
		service watchdog) \
	$(call in,base/http,http_address http_answer http_hosts http_query http_user idle) \
	$(call in,base/metrics,metrics prometheus)
base_LDLIBS := -liberty -lyaml -ljansson
http_SRCS := $(call in,base/http,http_access http_server http_tls http_tokens)
http_NEEDS := base
http_LDLIBS := -lmicrohttpd -lgnutls -lnettle
# what the daemons send by themselves: metrics and alerts
OTLP_GEN := $(B)/gen/base/metrics/otlp.pb-c
LIBS += post
post_SRCS := $(call in,base/http,http_post) $(call in,base/metrics,otlp otlp_export) $(OTLP_GEN).c
post_NEEDS := base
post_LDLIBS := -lcurl -lprotobuf-c -lpthread
GEN += $(OTLP_GEN).h

# One recipe for both files; the header stands for the pair.
$(OTLP_GEN).h: base/metrics/otlp.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(OTLP_GEN).c: $(OTLP_GEN).h ;

$(call unit,base,test_keyed test_probe test_peer test_buf test_config test_loop test_idle test_http \
	test_watchdog test_secret_file test_quota test_text test_utf8 test_replace test_json_text test_prometheus)
$(call unit,http,test_http_server test_http_tokens test_http_access)
test_http_access_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,peer_user peer_is_loopback)
$(call unit,post,test_otlp test_otlp_export)
test_otlp_export_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,clock_gettime pthread_join)
$(call fuzz,base,fuzz_config)
$(call fuzz,http,fuzz_http_tokens)
