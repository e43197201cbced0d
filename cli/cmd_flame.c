/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/incident_load.h"
#include "cli/incident_stacks.h"
#include "cli/incident_text.h"
#include "cli/jsonget.h"
#include "cli/profile_out.h"
#include "cli/term.h"

static int write_stacks(const struct options *o, const json_t *in, const struct trace_rank *r,
			const char *path)
{
	struct symbol_resolver *resolver;
	struct profile_names *names;
	struct profile_counts n;
	char title[300], note[300];
	struct profile_out out = {.path = path,
				  .title = title,
				  .note = note,
				  .format = (enum profile_format)profile_out_format(NULL, path),
				  .realtime_ns =
				      r->stacks.begin_ns + (uint64_t)r->realtime_offset_ns};
	int err;

	profile_out_count(&r->stacks, &n);
	snprintf(title, sizeof(title), "rank %d of %s: %s", r->who.rank, term_safe(r->who.job, 60),
		 incident_text_title(in));
	snprintf(note, sizeof(note),
		 "Incident %s; %s samples on the CPU, %s blockings, %s truncated.",
		 term_safe(jsonget_text(in, "id"), 32), term_count((double)n.on_count),
		 term_count((double)n.off_count), term_count((double)n.truncated));
	err = incident_stacks_names(r, &resolver, &names);
	if (!err)
		err = profile_out_write(&out, &r->stacks, names);
	profile_names_close(names);
	symbol_resolver_close(resolver);
	if (err) {
		fprintf(stderr, "sysom flame: %s: %s\n", path, strerror(-err));
		return err;
	}
	if (o->json && strcmp(path, "-")) {
		json_t *j = json_pack(
		    "{s:s, s:s, s:s, s:i, s:I, s:I, s:I}", "incident", jsonget_text(in, "id"),
		    "file", path, "format", profile_out_format_name(out.format), "rank",
		    r->who.rank, "samples", (json_int_t)n.on_count, "blockings",
		    (json_int_t)n.off_count, "truncated", (json_int_t)n.truncated);

		commands_print_json(j);
		json_decref(j);
	} else {
		fprintf(strcmp(path, "-") ? stdout : stderr,
			"%s: rank %d, %s samples on the CPU, %s blockings\n",
			strcmp(path, "-") ? path : "standard output", r->who.rank,
			term_count((double)n.on_count), term_count((double)n.off_count));
	}
	return 0;
}

int cmd_flame_main(const struct options *o)
{
	const struct trace_rank *rank;
	struct trace_model m;
	struct client c;
	char path[64];
	const char *to = o->out;
	json_t *in;
	int r;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	in = commands_incident(o, &c, o->argv[0]);
	if (!in)
		return EXIT_NOTHING;
	if (!to) {
		snprintf(path, sizeof(path), "%.8s.flame.html",
			 term_safe(jsonget_text(in, "id"), 32));
		to = path;
	}
	r = trace_model_init(&m);
	if (!r)
		r = incident_load_windows(&c, in, o->have_rank ? o->rank : -1, &m);
	rank = r > 0 ? incident_stacks_rank(in, &m, o->have_rank ? o->rank : -1) : NULL;
	if (rank)
		r = write_stacks(o, in, rank, to);
	else
		fprintf(stderr, "sysom flame: %s\n",
			r < 0 ? strerror(-r)
			      : "no CPU stacks came with this incident's windows (sysom status "
				"says why)");
	json_decref(in);
	trace_model_fini(&m);
	return rank && !r ? EXIT_OK : EXIT_NOTHING;
}
