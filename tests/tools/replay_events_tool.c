/* SPDX-License-Identifier: Apache-2.0
 * `sysom replay events` alone, for its tests. */
#include "cli/replay.h"

int main(int argc, char **argv)
{
	return replay_events_main(argc, argv);
}
