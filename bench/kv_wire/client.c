/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * client HOST PORT get|set|fill SIZES KEYS ZIPF SOCKETS AT_ONCE SECONDS: memcached's text protocol over UDP, with so many requests on
 * each socket unanswered at once. SIZES is `128`, the bytes of all values, or `mix`: a key of four has 1,024 bytes, the others 128.
 * Keys are uniform if ZIPF is 0. `fill` sets each key once and ends. An answer of another kind or length than it should be ends it.
 *
 * Prints the answers, those in a second, the median and 99th percentile of the time to an answer in microseconds, and how many
 * requests had no answer.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../kv_common.h"
#include "keys.h"

#define FRAME 8
#define SOCKETS 64
#define AT_ONCE 64
#define SAMPLES (1 << 16)
#define TIMES (1 << 23)
#define TRIES 50
/* Bytes that are sent at a time. */
#define MESSAGE 60000

struct flow {
	int socket;
	int waiting;
	uint16_t next;
	/* By number of the request: when it was sent, 0 once it is answered, and the length of the answer. */
	double sent[1 << 16];
	uint16_t bytes[1 << 16];
	uint32_t key[1 << 16];
};

static struct flow flows[SOCKETS];
static uint32_t samples[SAMPLES];
static float times[TIMES];
static char value[1024];
static int is_set, is_mixed, value_bytes;
static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

static int compare(const void *one, const void *other)
{
	float difference = *(const float *)one - *(const float *)other;

	return difference < 0 ? -1 : difference > 0;
}

static void draw(uint32_t keys, double zipf)
{
	double *until = popularity(keys, zipf);

	for (int at = 0; at < SAMPLES; at++)
		samples[at] = key_at(until, keys, (next_random() % (1ull << 50)) / (double)(1ull << 50));
	free(until);
}

static int bytes_of(uint32_t key)
{
	return is_mixed ? (key & 3 ? 128 : 1024) : value_bytes;
}

/*
 * Sends a run of requests of equal length as one message, which the kernel cuts into a datagram for each (UDP_SEGMENT). A client on
 * one processor would be slower than the servers if each were a message of its own.
 */
static void send_run(struct flow *flow, char *text, int length, int bytes)
{
	char control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct iovec part = { text, bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (bytes > length) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_UDP;
		header->cmsg_type = UDP_SEGMENT;
		header->cmsg_len = CMSG_LEN(sizeof(uint16_t));
		*(uint16_t *)CMSG_DATA(header) = length;
	}
	if (sendmsg(flow->socket, &message, 0) != bytes)
		fail("sendmsg");
}

/* Sends requests for these keys. */
static void ask(struct flow *flow, const uint32_t *keys, int count)
{
	static char text[AT_ONCE * (FRAME + 64 + sizeof(value))];
	int filled = 0, run = 0, before = 0;
	double time = now();

	for (int at = 0; at < count; at++) {
		uint16_t number = flow->next++;
		char frame[FRAME] = { number >> 8, number, 0, 0, 0, 1, 0, 0 };
		char *to = text + filled;
		int bytes = bytes_of(keys[at]), length = FRAME + 4;

		memcpy(to, frame, FRAME);
		memcpy(to + FRAME, is_set ? "set " : "get ", 4);
		to[length] = 'k';
		for (uint32_t digit = 7, rest = keys[at]; digit; digit--, rest /= 10)
			to[length + digit] = '0' + rest % 10;
		length += 8;
		if (is_set) {
			length += sprintf(to + length, " 0 0 %d\r\n", bytes);
			memcpy(to + length, value, bytes);
			length += bytes;
			flow->bytes[number] = FRAME + 8;
		} else {
			flow->bytes[number] = FRAME + 19 + (bytes < 1000 ? 3 : 4) + bytes + 7;
		}
		memcpy(to + length, "\r\n", 2);
		length += 2;
		flow->sent[number] = time;
		flow->key[number] = keys[at];
		if (before && (length != before || filled + length - run > MESSAGE)) {
			send_run(flow, text + run, before, filled - run);
			run = filled;
		}
		before = length;
		filled += length;
	}
	send_run(flow, text + run, before, filled - run);
	flow->waiting += count;
}

/* How many answers came. */
static int listen_to(struct flow *flow, size_t *answers)
{
	static char text[AT_ONCE][2048];
	static struct iovec parts[AT_ONCE];
	static struct mmsghdr messages[AT_ONCE];
	int got, known = 0;
	double time;

	for (int at = 0; at < AT_ONCE && !messages[at].msg_hdr.msg_iov; at++) {
		parts[at] = (struct iovec){ text[at], sizeof(text[at]) };
		messages[at].msg_hdr = (struct msghdr){ .msg_iov = &parts[at], .msg_iovlen = 1 };
	}
	got = recvmmsg(flow->socket, messages, AT_ONCE, MSG_DONTWAIT, 0);
	time = now();
	for (int at = 0; at < got; at++) {
		uint16_t number = (uint8_t)text[at][0] << 8 | (uint8_t)text[at][1];

		/* One that was given up, or came twice. */
		if (!flow->sent[number])
			continue;
		if (messages[at].msg_len != flow->bytes[number] || memcmp(text[at] + FRAME, is_set ? "STORED" : "VALUE ", 6)) {
			fprintf(stderr, "a wrong answer of %u bytes: %.*s\n", messages[at].msg_len, 40, text[at] + FRAME);
			exit(1);
		}
		if (*answers < TIMES)
			times[*answers] = time - flow->sent[number];
		++*answers;
		flow->sent[number] = 0;
		known++;
	}
	flow->waiting -= known;
	return known;
}

static void fill(struct flow *flow, uint32_t keys, int at_once)
{
	uint32_t again[AT_ONCE];
	size_t answers = 0;

	is_set = 1;
	for (uint32_t next = 0; next < keys;) {
		int count = 0, tries = 0;

		while (count < at_once && next < keys)
			again[count++] = next++;
		ask(flow, again, count);
		while (flow->waiting) {
			struct pollfd poll_for = { .fd = flow->socket, .events = POLLIN };

			if (poll(&poll_for, 1, 100) > 0) {
				listen_to(flow, &answers);
				continue;
			}
			if (tries++ == TRIES)
				fail("no answer");
			count = 0;
			for (int number = 0; number < 1 << 16; number++) {
				if (flow->sent[number])
					again[count++] = flow->key[number];
				flow->sent[number] = 0;
			}
			flow->waiting = 0;
			ask(flow, again, count);
		}
	}
}

int main(int count, char **words)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	struct pollfd ready[SOCKETS];
	int sockets, at_once, room = 4 << 20;
	size_t answers = 0, lost = 0, drawn = 0, kept;
	double begun, until, seconds;
	uint32_t keys;

	if (count != 10 || inet_pton(AF_INET, words[1], &server.sin_addr) != 1)
		return 2;
	server.sin_port = htons(atoi(words[2]));
	is_set = !strcmp(words[3], "set");
	is_mixed = !strcmp(words[4], "mix");
	value_bytes = atoi(words[4]);
	keys = atoi(words[5]);
	sockets = atoi(words[7]);
	at_once = atoi(words[8]);
	seconds = atof(words[9]);
	if (keys < 1 || sockets < 1 || sockets > SOCKETS || at_once < 1 || at_once > AT_ONCE || value_bytes > 1024)
		return 2;
	memset(value, 'v', sizeof(value));
	draw(keys, atof(words[6]));
	for (int at = 0; at < sockets; at++) {
		flows[at].socket = socket(AF_INET, SOCK_DGRAM, 0);
		if (connect(flows[at].socket, (void *)&server, sizeof(server)))
			fail("connect");
		setsockopt(flows[at].socket, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
		ready[at] = (struct pollfd){ .fd = flows[at].socket, .events = POLLIN };
	}
	if (!strcmp(words[3], "fill")) {
		fill(&flows[0], keys, at_once);
		return 0;
	}
	begun = now();
	until = begun + seconds * 1e6;
	while (now() < until) {
		int came = 0;

		for (int at = 0; at < sockets; at++) {
			uint32_t wanted[AT_ONCE];
			int more;

			came += listen_to(&flows[at], &answers);
			more = at_once - flows[at].waiting;
			for (int key = 0; key < more; key++)
				wanted[key] = samples[drawn++ % SAMPLES];
			if (more)
				ask(&flows[at], wanted, more);
		}
		if (came)
			continue;
		if (poll(ready, sockets, 20) == 0) {
			for (int at = 0; at < sockets; at++) {
				lost += flows[at].waiting;
				flows[at].waiting = 0;
				memset(flows[at].sent, 0, sizeof(flows[at].sent));
			}
		}
	}
	begun = now() - begun;
	kept = answers < TIMES ? answers : TIMES;
	qsort(times, kept, sizeof(*times), compare);
	printf("%zu %.0f %.1f %.1f %zu\n", answers, answers / begun * 1e6, times[kept / 2], times[kept * 99 / 100], lost);
	return 0;
}
