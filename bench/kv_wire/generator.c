/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * generator OBJECT INTERFACE pass: keeps a program at the interface that passes all, until its input ends.
 * generator OBJECT INTERFACE get|set KEYS ZIPF AT_ONCE SECONDS: sends requests that generator.bpf.c makes, with so many unanswered at
 * once, from 10.0.0.1 to 10.0.0.2:11211 and the Ethernet addresses in MAC_FROM and MAC_TO. Values of a `set` have 128 bytes.
 *
 * Prints the answers, those in a second, how many requests had no answer, and how many had another one.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../kv_common.h"
#include "generator.h"
#include "keys.h"

#define BATCH 64
/* Requests of one call where nobody waits for answers. */
#define FLOOD 4096
/* Without any answer for so long, in microseconds, what is not answered is lost. */
#define PATIENCE 10000

static void draw(struct shared *to, __u32 keys, double zipf)
{
	double *until = popularity(keys, zipf);
	unsigned short seed[3] = { 1, 2, 3 };

	for (int at = 0; at < SAMPLES; at++) {
		char text[16];

		snprintf(text, sizeof(text), "k%07u", key_at(until, keys, erand48(seed)));
		memcpy(&to->keys[at], text, 8);
	}
	free(until);
}

static void put16(unsigned char *to, unsigned int number)
{
	to[0] = number >> 8;
	to[1] = number;
}

static void mac(unsigned char *to, const char *name)
{
	const char *text = getenv(name);
	unsigned int byte[6];

	if (!text || sscanf(text, "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4, byte + 5) != 6)
		exit(2);
	for (int at = 0; at < 6; at++)
		to[at] = byte[at];
}

/* A request; its bytes. */
static int request(unsigned char *packet, int is_set)
{
	static const unsigned char ip[] = { 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2 };
	char *text = (char *)packet + TEXT_AT;
	int bytes = TEXT_AT;
	__u32 sum = 0;

	mac(packet, "MAC_TO");
	mac(packet + 6, "MAC_FROM");
	put16(packet + 12, 0x0800);
	if (is_set) {
		bytes += sprintf(text, "set k0000000 0 0 128\r\n");
		memset(packet + bytes, 'v', 128);
		memcpy(packet + bytes + 128, "\r\n", 2);
		bytes += 130;
	} else {
		bytes += sprintf(text, "get k0000000\r\n");
	}
	memcpy(packet + 14, ip, sizeof(ip));
	put16(packet + 16, bytes - 14);
	for (int at = 14; at < 34; at += 2)
		sum += packet[at] << 8 | packet[at + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	put16(packet + 24, ~(sum + (sum >> 16)));
	put16(packet + 34, 40000);
	put16(packet + 36, 11211);
	put16(packet + 38, bytes - 34);
	memset(packet + 40, 0, 8);
	put16(packet + 46, 1);
	put16(packet + 48, 0);
	return bytes;
}

int main(int count, char **words)
{
	unsigned char packet[512] = { 0 };
	struct xdp_md context = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options);
	struct bpf_object *object;
	volatile struct shared *shared;
	__u64 sent = 0, lost = 0, seen = 0, at_once;
	double begun, until, changed;
	int interface, generate, program;

	if (count != 4 && count != 8)
		return 2;
	object = bpf_object__open(words[1]);
	interface = if_nametoindex(words[2]);
	if (!object || !interface || bpf_object__load(object))
		fail("loading the generator");
	program = bpf_program__fd(bpf_object__find_program_by_name(object, count == 4 ? "pass" : "count"));
	program = bpf_link_create(program, interface, BPF_XDP, 0);
	if (program < 0)
		fail("attaching");
	if (count == 4) {
		printf("ready\n");
		fflush(stdout);
		while (getchar() != EOF)
			;
		return 0;
	}
	shared = mmap(0, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		      bpf_object__find_map_fd_by_name(object, "shared_memory"), 0);
	if (shared == MAP_FAILED)
		fail("mapping");
	shared->is_set = !strcmp(words[3], "set");
	draw((struct shared *)shared, atoi(words[4]), atof(words[5]));
	at_once = atoi(words[6]);
	options.data_in = packet;
	options.data_size_in = request(packet, shared->is_set);
	memcpy((void *)shared->head, packet, HEAD_BYTES);
	context.data_end = options.data_size_in;
	context.ingress_ifindex = interface;
	options.ctx_in = &context;
	options.ctx_size_in = sizeof(context);
	options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
	generate = bpf_program__fd(bpf_object__find_program_by_name(object, "generate"));
	/*
	 * A test run of a program that is attached nowhere changes the kernel's dispatcher, twice, and waits for all processors each
	 * time: 20 ms. Nothing comes in at the loopback interface.
	 */
	if (bpf_xdp_attach(if_nametoindex("lo"), generate, XDP_FLAGS_SKB_MODE, NULL))
		fail("attaching at lo");
	begun = changed = now();
	until = begun + atof(words[7]) * 1e6;
	while (now() < until) {
		__u64 answered = shared->answers + shared->wrong, waiting;

		/* What was given up has come after all. */
		if (answered + lost > sent)
			lost = sent - answered;
		waiting = sent - answered - lost;
		if (answered != seen) {
			seen = answered;
			changed = now();
		}
		/* Half of them at a time: each call makes its frames anew. */
		if (!at_once || waiting <= at_once / 2) {
			options.repeat = at_once ? at_once - waiting : FLOOD;
			options.batch_size = BATCH;
			if (bpf_prog_test_run_opts(generate, &options))
				fail("sending");
			sent += options.repeat;
			changed = now();
		} else if (now() - changed > PATIENCE) {
			lost += waiting;
			changed = now();
		} else {
			sched_yield();
		}
	}
	begun = now() - begun;
	bpf_xdp_detach(if_nametoindex("lo"), XDP_FLAGS_SKB_MODE, NULL);
	printf("%llu %.0f %llu %llu\n", (unsigned long long)shared->answers, shared->answers / begun * 1e6, (unsigned long long)lost,
	       (unsigned long long)shared->wrong);
	return 0;
}
