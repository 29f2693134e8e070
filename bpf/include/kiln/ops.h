/* Native operations for those who would rather write them than have them found.
 *
 * Each function is a proof sequence in C: plain BPF after the compiler, on every kernel. `kiln ops prog.o -o marked.o`
 * marks what the compiler made of it, and Kiln's JITs do it in one machine instruction (docs/guide/native-operations.md).
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

/* Asks for the cache line at an address. Any address may be asked for: nothing is read, and nothing faults. */
static inline __attribute__((always_inline)) void kiln_prefetch(const void *address)
{
	asm volatile("%0 = %0; %0 = %0" : "+r"(address));
}

/* Returns the number. What follows waits until all earlier instructions, branches among them, are done. */
static inline __attribute__((always_inline)) unsigned long long kiln_speculation_barrier(unsigned long long number)
{
	asm volatile("%0 &= %0; %0 &= %0" : "+r"(number));
	return number;
}

/* `a op b ? then : otherwise` without a branch, where the branch would be hard to predict. A branch that is predicted well
 * is faster. The operator is one of ==, !=, >, >=, <, <=, s>, s>=, s<, s<=, and all values have 64 bits. Natively it is the
 * expression, without the signed operators. */
#ifdef __bpf__
#define KILN_SELECT(a, op, b, then, otherwise)                                                                         \
	({                                                                                                             \
		unsigned long long kiln_chosen = (then);                                                               \
		asm("%[chosen] = %[chosen]; if %[left] " #op " %[right] goto +1; %[chosen] = %[other]"                  \
		    : [chosen] "+r"(kiln_chosen)                                                                       \
		    : [left] "r"((unsigned long long)(a)), [right] "r"((unsigned long long)(b)),                       \
		      [other] "r"((unsigned long long)(otherwise)));                                                   \
		kiln_chosen;                                                                                           \
	})
#else
#define KILN_SELECT(a, op, b, then, otherwise) ((a)op(b) ? (then) : (otherwise))
#endif

#endif
