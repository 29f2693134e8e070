// A program whose probes and functions the tests know: each call of them is in `probes.rs`, too.
#include <stdint.h>
#include <stdlib.h>
#ifdef COUNTED
#define _SDT_HAS_SEMAPHORES 1
#endif
#include <sys/sdt.h>

#ifdef COUNTED
__attribute__((section(".probes"))) volatile unsigned short own_passed_semaphore;
__attribute__((section(".probes"))) volatile unsigned short own_never_semaphore;
#define IS_WATCHED own_passed_semaphore
#else
#define IS_WATCHED 1
#endif

static const char *const names[] = {"one", "two", "three"};
volatile int16_t table[4] = {-300, -1, 0, 300};

// The probe is at two places, where its arguments are in different registers and memory.
__attribute__((noipa)) void pass(int number, unsigned char byte, const char *name, int64_t large) {
    if (number & 1)
        DTRACE_PROBE6(own, passed, number, byte, name, large, table[number & 3], 7);
    else
        DTRACE_PROBE6(own, passed, -number, (unsigned char)(byte + 1), name, large * 2, table[number & 3], -9);
}

__attribute__((noipa)) long named(short low, const char *title, unsigned count, double weight, signed char sign) {
    __asm__ volatile("" ::: "memory");
    return low + (title ? title[0] : 0) + count + (long)weight + sign;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    long sum = 0;
    // Memory that nobody has touched yet cannot be read by a probe.
    for (int at = 0; at < 3; at++)
        sum += *(const volatile char *)names[at];
    for (int number = 0; number < rounds; number++) {
        pass(number, 250 + number, names[number % 3], ((int64_t)1 << 40) + number);
        sum += named(-number, names[number % 3], 0x80000000u + number, 0.5, number % 2 ? -5 : 5);
    }
    if (argc > 9)
        DTRACE_PROBE1(own, never, sum);
    return IS_WATCHED ? 0 : 3;
}
