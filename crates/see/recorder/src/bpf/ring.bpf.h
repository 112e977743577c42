/* SPDX-License-Identifier: GPL-2.0-only */
/* The destinations of records: one ring a CPU for hot records, a shared ring for rare records. */
#ifndef SPRY_RING_BPF_H
#define SPRY_RING_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spry_cpu);
} cpus SEC(".maps");

/*
 * The rings' memory, in pieces of some chunks. A kernel clears a map's memory without letting another task
 * run, so that one large map would hold up its CPU for long.
 */
struct piece {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, SPRY_CHUNK_BYTES);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct piece);
} pieces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} shared SEC(".maps");

/* One run of a program that writes a record: from enter() to leave(). */
struct stay {
	struct spry_cpu *c;
	u32 cpu;
	u64 nest;
	u64 now;
};

/*
 * Begins a record; preemption must be off. While the CPU's `nest` is not 0, a record with an earlier time may
 * still come, and the recorder waits. Interrupts nest strictly, so plain loads and stores keep `nest` right.
 */
static __always_inline bool enter(struct stay *s)
{
	u32 cpu;

	if (!*(volatile u32 *)&control.enabled)
		return false;
	cpu = bpf_get_smp_processor_id();
	s->cpu = cpu;
	s->c = bpf_map_lookup_elem(&cpus, &cpu);
	if (!s->c)
		return false;
	s->nest = *(volatile u64 *)&s->c->nest;
	*(volatile u64 *)&s->c->nest = s->nest + 1;
	barrier();
	s->now = bpf_ktime_get_ns();
	return true;
}

static __always_inline void leave(struct stay *s)
{
	barrier();
	*(volatile u64 *)&s->c->nest = s->nest;
}

static __always_inline u64 stamp(u64 now, u32 kind)
{
	return now << SPRY_STAMP_SHIFT | kind;
}

/* The chunk of the CPU's ring that holds this position. */
static __always_inline char *chunk_of(u32 cpu, u64 position)
{
	u32 chunk = (cpu << knobs.chunks_shift) + ((u32)(position >> SPRY_CHUNK_SHIFT) & knobs.chunk_mask);
	u32 number = chunk >> knobs.piece_shift;
	u32 place = chunk & ((1 << knobs.piece_shift) - 1);
	void *piece = bpf_map_lookup_elem(&pieces, &number);

	return piece ? bpf_map_lookup_elem(piece, &place) : NULL;
}

static __always_inline void put_word(u32 cpu, u64 position, u64 word)
{
	u32 offset = position & (SPRY_CHUNK_BYTES - 8);
	char *chunk = chunk_of(cpu, position);

	if (chunk)
		*(u64 *)(chunk + offset) = word;
}

/*
 * Called when the head has passed the limit. Moves the head to the next chunk if the current chunk is full,
 * and reads the recorder's position again. Writes the number of records that did not fit before. Returns
 * false if there is no room.
 */
static __noinline bool make_room(struct spry_cpu *c, u32 cpu, u64 now)
{
	u64 head, end, start, missed, room;

	if (!c)
		return false;
	head = c->head;
	missed = c->missed;
	end = *(volatile u64 *)&c->tail + knobs.ring_bytes;
	start = head & ~(u64)(SPRY_CHUNK_BYTES - 1);
	room = missed ? 2 * SPRY_HOT_MAX : SPRY_HOT_MAX;
	if (head - start > SPRY_CHUNK_BYTES - room)
		start += SPRY_CHUNK_BYTES;
	if ((start > head ? start : head) + room > end) {
		c->missed = missed + 1;
		c->limit = 0;
		return false;
	}
	if (start > head) {
		put_word(cpu, head, stamp(now, SPRY_PAD));
		head = start;
	}
	if (missed) {
		put_word(cpu, head, stamp(now, SPRY_LOST));
		put_word(cpu, head + 8, missed);
		head += sizeof(struct spry_value);
		c->missed = 0;
	}
	publish(&c->head, head);
	start += SPRY_CHUNK_BYTES;
	c->limit = (start < end ? start : end) - SPRY_HOT_MAX;
	return true;
}

/* Puts a hot record into the shared ring: its program interrupted another program that was writing on this
 * CPU. */
static __noinline void put_nested(u32 cpu, u64 w0, u64 w1, u64 w2, u64 w3)
{
	struct spry_nested *record = bpf_ringbuf_reserve(&shared, sizeof(*record), 0);
	struct spry_cpu *c;

	if (!record) {
		c = bpf_map_lookup_elem(&cpus, &cpu);
		if (c)
			__sync_fetch_and_add(&c->meta_lost, 1);
		return;
	}
	record->meta.stamp = (w0 & ~(u64)0xff) | SPRY_NESTED;
	record->meta.cpu = cpu;
	record->meta.tid = 0;
	record->words[0] = w0;
	record->words[1] = w1;
	record->words[2] = w2;
	record->words[3] = w3;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Writes one hot record of `words` words, the first being its stamp. */
static __always_inline void put_words(struct stay *s, u32 kind, u32 words, u64 w1, u64 w2, u64 w3)
{
	struct spry_cpu *c = s->c;
	u64 w0 = stamp(s->now, kind);
	u32 offset;
	u64 *record;
	char *chunk;

	if (s->nest) {
		put_nested(s->cpu, w0, w1, w2, w3);
		return;
	}
	if (c->head > c->limit && !make_room(c, s->cpu, s->now))
		return;
	offset = c->head & (SPRY_CHUNK_BYTES - 8);
	chunk = chunk_of(s->cpu, c->head);
	if (!chunk || offset > SPRY_CHUNK_BYTES - SPRY_HOT_MAX)
		return;
	record = (u64 *)(chunk + offset);
	record[0] = w0;
	record[1] = w1;
	if (words > 2)
		record[2] = w2;
	if (words > 3)
		record[3] = w3;
	publish(&c->head, c->head + words * 8);
}

/* Writes one hot record, a structure of type `type`. The caller gives its fields by name, except the stamp.
 * The words behind the structure are 0: put_nested() reads them, too. */
#define put(s, kind, type, ...)                                                                              \
	({                                                                                                   \
		union {                                                                                      \
			u64 words[SPRY_HOT_MAX / 8];                                                         \
			struct type fields;                                                                  \
		} record_ = {};                                                                              \
                                                                                                             \
		record_.fields = (struct type){__VA_ARGS__};                                                 \
		put_words(s, kind, sizeof(struct type) / 8, record_.words[1], record_.words[2],              \
			  record_.words[3]);                                                                 \
	})

/* Writes one hot record that holds a single value. */
static __always_inline void put_value(u32 kind, u64 value)
{
	struct stay s;

	if (!enter(&s))
		return;
	put(&s, kind, spry_value, .value = value);
	leave(&s);
}

/* Reserves room for a record of the shared ring and fills in its first fields; NULL if there is no room. */
static __always_inline void *reserve_meta(struct stay *s, u64 size, u32 kind, u32 tid)
{
	struct spry_meta *meta = bpf_ringbuf_reserve(&shared, size, 0);

	if (!meta) {
		__sync_fetch_and_add(&s->c->meta_lost, 1);
		return NULL;
	}
	meta->stamp = stamp(s->now, kind);
	meta->cpu = s->cpu;
	meta->tid = tid;
	return meta;
}

#endif
