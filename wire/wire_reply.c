/* SPDX-License-Identifier: Apache-2.0
 * Replies: small, plain protobuf, no compression. */
#include "wire/codec.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "wire/codec_internal.h"

int wire_reply_encode(const struct wire_reply *r, struct buf *out)
{
	static const uint8_t none[16];
	Sysom__Wire__Envelope e = SYSOM__WIRE__ENVELOPE__INIT;
	Sysom__Wire__Reply pb = SYSOM__WIRE__REPLY__INIT;
	Sysom__Wire__Command commands[WIRE_COMMANDS_MAX], *list[WIRE_COMMANDS_MAX];
	char message[WIRE_TEXT_BYTES], jobs[WIRE_COMMANDS_MAX][WIRE_TEXT_BYTES];

	if (r->command_count > WIRE_COMMANDS_MAX)
		return -EMSGSIZE;
	codec_text_clean(r->message, message, sizeof(message));
	pb.status = (uint32_t)r->status;
	pb.id.data = (uint8_t *)r->id;
	pb.id.len = sizeof(r->id);
	pb.message = message;
	for (uint32_t i = 0; i < r->command_count; i++) {
		const struct wire_command *c = &r->commands[i];

		sysom__wire__command__init(&commands[i]);
		codec_text_clean(c->job, jobs[i], sizeof(jobs[i]));
		commands[i].kind = c->kind;
		commands[i].rank = c->rank;
		commands[i].job = jobs[i];
		commands[i].begin_ns = c->begin_ns;
		commands[i].end_ns = c->end_ns;
		if (memcmp(c->anomaly_id, none, sizeof(none))) {
			commands[i].anomaly_id.data = (uint8_t *)(uintptr_t)c->anomaly_id;
			commands[i].anomaly_id.len = sizeof(c->anomaly_id);
		}
		list[i] = &commands[i];
	}
	pb.commands = list;
	pb.n_commands = r->command_count;
	e.reply = &pb;
	return codec_emit(&e, WIRE_REPLY, LIMIT_WIRE_MESSAGE_BYTES, out);
}

static int reply_fill(const Sysom__Wire__Reply *pb, struct wire_reply *r)
{
	int err;

	memset(r, 0, sizeof(*r));
	if (pb->status > WIRE_REJECT)
		return -EPROTO;
	if (pb->n_commands > WIRE_COMMANDS_MAX)
		return -EMSGSIZE;
	r->status = (enum wire_status)pb->status;
	err = codec_id_read(&pb->id, r->id);
	if (!err)
		err = codec_text_read(pb->message, r->message, sizeof(r->message));
	for (size_t i = 0; i < pb->n_commands && !err; i++) {
		const Sysom__Wire__Command *from = pb->commands[i];
		struct wire_command *c = &r->commands[i];

		c->kind = from->kind;
		c->rank = from->rank;
		c->begin_ns = from->begin_ns;
		c->end_ns = from->end_ns;
		err = codec_text_read(from->job, c->job, sizeof(c->job));
		if (!err && from->anomaly_id.len) /* older senders have none */
			err = codec_id_read(&from->anomaly_id, c->anomaly_id);
	}
	r->command_count = (uint32_t)pb->n_commands;
	return err;
}

int wire_reply_decode(const void *data, size_t bytes, struct wire_reply *r)
{
	struct codec_arena a;
	Sysom__Wire__Envelope *e;
	int err = 0;

	e = codec_open(&a, data, bytes, WIRE_REPLY, &err);
	if (!e)
		return err;
	err = reply_fill(e->reply, r);
	codec_close(&a, e);
	return err;
}
