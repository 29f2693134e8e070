/* Native operations for those who would rather write them than have them found.
 *
 * Each function is a proof sequence in C: plain BPF after the compiler, on every kernel. `kiln ops prog.o -o marked.o`
 * marks what the compiler made of it, and Kiln's JITs do it in one machine instruction (docs/native-operations.md).
 */
#ifndef KILN_OPS_H
#define KILN_OPS_H

/* Rotates to the left by a number of bits from 1 to 31. */
static inline __attribute__((always_inline)) unsigned int kiln_rotate_left_32(unsigned int value, unsigned int bits)
{
	return value << bits | value >> (32 - bits);
}

/* Rotates to the left by a number of bits from 1 to 63. */
static inline __attribute__((always_inline)) unsigned long long kiln_rotate_left_64(unsigned long long value,
										    unsigned int bits)
{
	return value << bits | value >> (64 - bits);
}

/* Rotates to the right by a number of bits from 1 to 31. */
static inline __attribute__((always_inline)) unsigned int kiln_rotate_right_32(unsigned int value, unsigned int bits)
{
	return value >> bits | value << (32 - bits);
}

/* Rotates to the right by a number of bits from 1 to 63. */
static inline __attribute__((always_inline)) unsigned long long kiln_rotate_right_64(unsigned long long value,
										     unsigned int bits)
{
	return value >> bits | value << (64 - bits);
}

#endif
