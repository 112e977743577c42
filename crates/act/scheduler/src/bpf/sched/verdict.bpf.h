/* SPDX-License-Identifier: GPL-2.0-only */
/* Decodes the word of a verdict. No other BPF code reads it. */
#ifndef SPRY_VERDICT_BPF_H
#define SPRY_VERDICT_BPF_H

#include "knobs.bpf.h"

/* The daemon's verdict on a process. Class NONE means that there is no verdict. */
struct verdict {
	u64 quantum_ns;
	u32 class;
	u32 level;
};

#define SPRY_VERDICT_PART(word, PART)                                                                        \
	((word) >> SPRY_VERDICT_##PART##_SHIFT & ((1ull << SPRY_VERDICT_##PART##_BITS) - 1))

static __always_inline struct verdict verdict_in(u64 word)
{
	struct verdict verdict = {
		.quantum_ns = SPRY_VERDICT_PART(word, QUANTUM) * 1000,
		.class = SPRY_VERDICT_PART(word, CLASS),
		.level = SPRY_VERDICT_PART(word, LEVEL),
	};

	return verdict;
}

#endif
