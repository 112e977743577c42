/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Requests with timeouts, and a tick, in a loop that works and sleeps; a counter stands in for the clock. */
#include <inttypes.h>
#include <spry-timer.h>
#include <stdio.h>

/* Fires what is due. Returns how many ticks (value 0) fired. */
static int fire(spry_timers *timers, uint64_t now_ns, int trigger)
{
	struct spry_fired fired;
	int ticks = 0;

	while (spry_timers_take(timers, now_ns, trigger, &fired)) {
		if (fired.value == 0)
			ticks++;
		else
			printf("request %" PRIu64 " timed out, %" PRIu64 " us late\n", fired.value,
			       fired.late_ns / 1000);
	}
	return ticks;
}

int main(void)
{
	spry_timers *timers = spry_timers_new(16);
	struct spry_timer_counts counts;
	uint64_t now_ns = 5000000, first, second;
	char why[128] = "";
	int ticks = 0;

	/* Every ms, each time at most 200 us late. */
	spry_timers_arm(timers, now_ns, now_ns + 1000000, 200000, 1000000, 0, NULL, 0);
	first = spry_timers_arm(timers, now_ns, now_ns + 2500000, 100000, 0, 1, NULL, 0);
	second = spry_timers_arm(timers, now_ns, now_ns + 3500000, 100000, 0, 2, NULL, 0);
	/* The first request is answered; the second one makes progress. */
	if (spry_timers_cancel(timers, first) < 0 || spry_timers_cancel(timers, first) == 0)
		return 1;
	if (spry_timers_rearm(timers, now_ns, second, now_ns + 4030000, 100000, 0, NULL, 0) < 0)
		return 1;
	if (!spry_timers_arm(timers, now_ns, now_ns - 1, 0, 0, 3, why, sizeof(why)))
		printf("refused: %s\n", why);

	/* 3 ms of work, with a trigger point each 70 us. */
	for (; now_ns < 8000000; now_ns += 70000)
		if (spry_timers_wants_check(timers) && spry_timers_poll(timers, now_ns))
			ticks += fire(timers, now_ns, SPRY_CHECK);
	/* Then sleep until the backstop, as long as there is a request. */
	while (spry_timers_count(timers) > 1) {
		now_ns = spry_timers_backstop(timers);
		ticks += fire(timers, now_ns, SPRY_BACKSTOP);
	}
	counts = spry_timers_counts(timers);
	printf("%d ticks; %" PRIu64 " fired by checks, %" PRIu64 " by the backstop\n", ticks, counts.soft,
	       counts.hard);
	spry_timers_free(timers);
	return 0;
}
