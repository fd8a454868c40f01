/*
 * Copies, fills and compares memory in the static binary for x86_64.
 *
 * They replace the functions of musl, which copy short strings byte by byte or with `rep movsq`,
 * whose start takes longer than the copy, and compare byte by byte. Rules are made of short strings.
 * binary.sh links this file; tests/image compares it with the C library of the host.
 *
 * All blocks of up to 128 bytes are read before they are written, so that one function serves blocks
 * that overlap and those that do not. The compiler must not turn the loops into calls of these very
 * functions; binary.sh has the flags.
 */
#include <stddef.h>
#include <stdint.h>

/* Values at any address, which may be part of any object. */
typedef uint16_t __attribute__((aligned(1), may_alias)) two;
typedef uint32_t __attribute__((aligned(1), may_alias)) four;
typedef uint64_t __attribute__((aligned(1), may_alias)) eight;
typedef uint64_t __attribute__((vector_size(16), aligned(1), may_alias)) sixteen;

#define AT(type, address) (*(type *)(address))
/* Copies of 2 * sizeof(type) bytes or fewer, but no fewer than sizeof(type). */
#define MOVE_ENDS(type) do { \
	type first = AT(type, from); \
	type last = AT(type, from + size - sizeof(type)); \
	AT(type, to) = first; \
	AT(type, to + size - sizeof(type)) = last; \
} while (0)

/* 64 bytes: the loops below move one after the other. */
struct block { sixteen part[4]; };

static inline struct block load(const unsigned char *from)
{
	return (struct block){{
		AT(sixteen, from), AT(sixteen, from + 16), AT(sixteen, from + 32), AT(sixteen, from + 48),
	}};
}

static inline void store(unsigned char *to, struct block block)
{
	AT(sixteen, to) = block.part[0];
	AT(sixteen, to + 16) = block.part[1];
	AT(sixteen, to + 32) = block.part[2];
	AT(sixteen, to + 48) = block.part[3];
}

static void move_short(unsigned char *to, unsigned char *from, size_t size)
{
	if (size >= 8)
		MOVE_ENDS(eight);
	else if (size >= 4)
		MOVE_ENDS(four);
	else if (size >= 2)
		MOVE_ENDS(two);
	else if (size == 1)
		*to = *from;
}

static void move_long(unsigned char *to, unsigned char *from, size_t size)
{
	size_t at;
	struct block first = load(from), last = load(from + size - 64);

	/* Also if `to` is below `from`: what a block overwrites was read with it or before it. */
	if ((uintptr_t)to - (uintptr_t)from >= size) {
		for (at = 0; at + 64 < size; at += 64)
			store(to + at, load(from + at));
		store(to + size - 64, last);
	} else {
		for (at = size; at > 64; at -= 64)
			store(to + at - 64, load(from + at - 64));
		store(to, first);
	}
}

void *memmove(void *to_start, const void *from_start, size_t size)
{
	unsigned char *to = to_start, *from = (unsigned char *)from_start;

	if (size <= 16) {
		move_short(to, from, size);
	} else if (size <= 32) {
		MOVE_ENDS(sixteen);
	} else if (size <= 64) {
		sixteen a = AT(sixteen, from), b = AT(sixteen, from + 16);
		sixteen c = AT(sixteen, from + size - 32), d = AT(sixteen, from + size - 16);

		AT(sixteen, to) = a;
		AT(sixteen, to + 16) = b;
		AT(sixteen, to + size - 32) = c;
		AT(sixteen, to + size - 16) = d;
	} else if (size <= 128) {
		struct block first = load(from), last = load(from + size - 64);

		store(to, first);
		store(to + size - 64, last);
	} else {
		move_long(to, from, size);
	}
	return to_start;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
	__attribute__((alias("memmove")));

void *memset(void *start, int value, size_t size)
{
	unsigned char *to = start;
	uint64_t byte = 0x0101010101010101u * (unsigned char)value;
	sixteen bytes = {byte, byte};
	size_t at;

	if (size >= 16) {
		for (at = 0; at + 16 < size; at += 16)
			AT(sixteen, to + at) = bytes;
		AT(sixteen, to + size - 16) = bytes;
	} else if (size >= 8) {
		AT(eight, to) = byte;
		AT(eight, to + size - 8) = byte;
	} else if (size >= 4) {
		AT(four, to) = byte;
		AT(four, to + size - 4) = byte;
	} else if (size >= 2) {
		AT(two, to) = byte;
		AT(two, to + size - 2) = byte;
	} else if (size == 1) {
		*to = value;
	}
	return start;
}

/* The first byte decides, and x86_64 has it lowest. */
static inline int order(uint64_t left, uint64_t right)
{
	left = __builtin_bswap64(left);
	right = __builtin_bswap64(right);
	return (left > right) - (left < right);
}

int memcmp(const void *left_start, const void *right_start, size_t size)
{
	unsigned char *left = (unsigned char *)left_start, *right = (unsigned char *)right_start;
	size_t at;
	uint64_t l, r;

	if (size >= 8) {
		for (at = 0; at + 8 < size; at += 8) {
			l = AT(eight, left + at);
			r = AT(eight, right + at);
			if (l != r)
				return order(l, r);
		}
		l = AT(eight, left + size - 8);
		r = AT(eight, right + size - 8);
		return l == r ? 0 : order(l, r);
	}
	if (size >= 4) {
		/* Bytes that both halves have are equal in the second if the first are. */
		l = AT(four, left) | (uint64_t)AT(four, left + size - 4) << 32;
		r = AT(four, right) | (uint64_t)AT(four, right + size - 4) << 32;
		return l == r ? 0 : order(l, r);
	}
	for (at = 0; at < size; at++)
		if (left[at] != right[at])
			return left[at] - right[at];
	return 0;
}

int bcmp(const void *left, const void *right, size_t size) __attribute__((alias("memcmp")));
