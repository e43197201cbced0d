/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "sampler/python/python_runtime.h"
#include "sampler/python/python_stitch.h"

/* native: one letter per frame, leaf first, '*' the interpreter loop, 'G' of an extension that switches
 * stacks; a last '~': cut.
 * python: one digit per frame, innermost first, '|' after an entry; "." a run without frames; '~'.
 * Gives the joined stack in the same letters. */
static enum python_stitch_result stitch(const char *native, const char *python, char *out)
{
	struct stack_frame n[64] = {0}, named[64] = {0}, joined[128];
	struct python_frame p[64] = {0};
	uint8_t mark[64] = {0};
	struct python_stitch_in in = {.native = n, .mark = mark, .python = p, .named = named};
	enum python_stitch_result result;
	uint32_t count, i;

	in.native_whole = in.python_whole = true;
	for (; *native; native++) {
		if (*native == '~') {
			in.native_whole = false;
			continue;
		}
		n[in.native_count].kind = STACK_FRAME_NATIVE;
		n[in.native_count].address = (uint64_t)*native;
		mark[in.native_count] = *native == 'G' ? PYTHON_MARK_SWITCH : PYTHON_MARK_NONE;
		n[in.native_count++].flags = *native == '*' ? STACK_FRAME_SHIM : 0;
	}
	for (; *python; python++) {
		if (*python == '~') {
			in.python_whole = false;
		} else if (*python == '|') {
			p[in.python_count - 1].flags = PYTHON_FRAME_ENTRY;
		} else {
			p[in.python_count].code = *python == '.' ? 0 : 4096;
			named[in.python_count].kind = STACK_FRAME_PYTHON;
			named[in.python_count++].address = (uint64_t)*python;
		}
	}
	result = python_stitch(&in, joined, 128, &count);
	for (i = 0; i < count; i++)
		out[i] = (char)joined[i].address;
	out[i] = 0;
	return result;
}

#define EXPECT(native, python, joined, how)                                                        \
	do {                                                                                       \
		char out[128];                                                                     \
		assert_int_equal(stitch(native, python, out), how);                                \
		assert_string_equal(out, joined);                                                  \
	} while (0)

static void a_run_takes_the_place_of_its_loop(void **unused)
{
	EXPECT("ab*cd*e", "12|34|", "ab12cd34e", PYTHON_STITCH_EXACT);
	EXPECT("*m", "1|", "1m", PYTHON_STITCH_EXACT);
	EXPECT("abc", "", "abc", PYTHON_STITCH_EXACT);
	EXPECT("a***m", "1|2|3|", "a123m", PYTHON_STITCH_EXACT);
}

static void a_loop_without_frames_stays(void **unused)
{
	EXPECT("*c*m", ".|12|", "*c12m", PYTHON_STITCH_EXACT);
	EXPECT("a*m", "", "a*m", PYTHON_STITCH_MISMATCH);
}

static void whole_stacks_that_disagree_are_aligned_at_the_root(void **unused)
{
	/* the loop was just entered: its frame is not there yet */
	EXPECT("*c*m", "12|", "*c12m", PYTHON_STITCH_MISMATCH);
	/* a run whose native frame is missing comes before the next outer one */
	EXPECT("a*m", "1|2|", "a12m", PYTHON_STITCH_MISMATCH);
	EXPECT("am", "1|2|", "am12", PYTHON_STITCH_MISMATCH);
}

static void cut_stacks_are_aligned_at_the_leaf(void **unused)
{
	EXPECT("a*b~", "1|23|4|", "a1b234", PYTHON_STITCH_CUT);
	EXPECT("a*b*c*m", "1|2~", "a1b2c*m", PYTHON_STITCH_CUT);
	EXPECT("a*b~", "1|23~", "a1b23", PYTHON_STITCH_CUT);
	EXPECT("a*b*~", "1|2~", "a1b2", PYTHON_STITCH_EXACT);
	EXPECT("a*b*~", "1|", "a1b*", PYTHON_STITCH_MISMATCH);
	EXPECT("a*m", "1|2~", "a1m2", PYTHON_STITCH_MISMATCH);
}

static void a_stack_that_was_switched_ends_where_it_began(void **unused)
{
	/* what started it, or what lies there by now, is not above it */
	EXPECT("a*b*cGGd*m", "1|2|", "a1b2cGG", PYTHON_STITCH_ROOT);
	EXPECT("*cGGd*e*m", "12|", "12cGG", PYTHON_STITCH_ROOT);
	EXPECT("*cGGd*e~", "12|", "12cGG", PYTHON_STITCH_ROOT);
	/* nothing is above it any more */
	EXPECT("*b*cGG~", "1|2|", "1b2cGG", PYTHON_STITCH_ROOT);
	EXPECT("*b*cGGd~", "1|2|", "1b2cGG", PYTHON_STITCH_ROOT);
	/* started by one that was started */
	EXPECT("*aGb*cGGd*m", "1|", "1aG", PYTHON_STITCH_ROOT);
	/* the first stack of the thread */
	EXPECT("a*b*m", "1|2|", "a1b2m", PYTHON_STITCH_EXACT);
	/* no frame of the extension behind the last run */
	EXPECT("a*b*c*GGd*m", "1|2|", "a*b*c1GGd2m", PYTHON_STITCH_MISMATCH);
	/* while it switches, the frames may be of either stack */
	EXPECT("aG*cGGd*m", "1|", "aG*cGGd1m", PYTHON_STITCH_MISMATCH);
	EXPECT("aG*m", "1|", "aG1m", PYTHON_STITCH_MISMATCH);
}

static void no_more_than_the_room(void **unused)
{
	struct stack_frame n[4] = {{.flags = STACK_FRAME_SHIM}}, named[4] = {0}, out[2];
	struct python_frame p[4] = {{4096, 0, 0}, {4096, 0, 0}, {4096, 0, 0}, {4096, 0, 1}};
	struct python_stitch_in in = {n, NULL, 4, true, p, named, 4, true};
	uint32_t count;

	assert_int_equal(python_stitch(&in, out, 2, &count), PYTHON_STITCH_EXACT);
	assert_int_equal(count, 2);
}

static void who_takes_the_gil_waits(void **unused)
{
	const uint8_t waits[] = {0, PYTHON_MARK_WAIT, 0, PYTHON_MARK_EVAL};
	const uint8_t works[] = {0, 0, PYTHON_MARK_EVAL, PYTHON_MARK_WAIT};

	assert_int_equal(python_stitch_gil(STACK_GIL_RELEASED, waits, 4), STACK_GIL_WAITER);
	assert_int_equal(python_stitch_gil(STACK_GIL_RELEASED, works, 4), STACK_GIL_RELEASED);
	assert_int_equal(python_stitch_gil(STACK_GIL_HOLDER, waits, 4), STACK_GIL_HOLDER);
	assert_int_equal(python_stitch_gil(STACK_GIL_NONE, waits, 4), STACK_GIL_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_run_takes_the_place_of_its_loop),
	    cmocka_unit_test(a_loop_without_frames_stays),
	    cmocka_unit_test(whole_stacks_that_disagree_are_aligned_at_the_root),
	    cmocka_unit_test(cut_stacks_are_aligned_at_the_leaf),
	    cmocka_unit_test(a_stack_that_was_switched_ends_where_it_began),
	    cmocka_unit_test(no_more_than_the_room),
	    cmocka_unit_test(who_takes_the_gil_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
