/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Works 1 ms in every 10 ms with a reservation of 2 ms, for a second, and prints its slot and periods. */
#include <spry-reserve.h>
#include <stdio.h>
#include <time.h>

static void work(long us)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += us * 1000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

int main(void)
{
	struct timespec rest = {0, 9000000};
	struct spry_reserve_state state;
	char why[256] = "";
	spry_reservation *own = spry_reserve_thread(2000000, 10000000, SPRY_WAIT, why, sizeof(why));

	if (!own) {
		fprintf(stderr, "on_time: %s\n", why);
		return 1;
	}
	for (int i = 0; i < 100; i++) {
		work(1000);
		nanosleep(&rest, NULL);
	}
	if (spry_reserve_ask(own, &state, why, sizeof(why)) < 0) {
		fprintf(stderr, "on_time: %s\n", why);
		return 1;
	}
	printf("slot %u on CPU %u: %llu periods\n", state.slot, state.cpu, (unsigned long long)state.periods);
	if (spry_reserve_set(own, 20000000, 10000000, SPRY_WAIT, why, sizeof(why)) < 0)
		printf("refused: %s\n", why);
	return spry_reserve_release(own, why, sizeof(why)) < 0;
}
