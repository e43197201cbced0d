# SPDX-License-Identifier: Apache-2.0
# An incident's JSON as text and as a page, and a request as JSON, for sysom and both daemons.
LIBS += render
render_SRCS := $(call in,render,escape incident_ledger incident_text incident_verdict report_page \
	report_verdict request_json term)
render_NEEDS := analysis
render_LDLIBS := -ljansson
# the page contains its style
$(B)/obj/render/report_page.o: render/report.css
