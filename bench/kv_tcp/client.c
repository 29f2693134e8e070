/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * client HOST PORT get|set CONNECTIONS AT_ONCE SECONDS: asks for random keys, or sets them to 128 bytes, on each connection so many
 * at once, and checks the replies' first words and lengths. Prints the requests, those in a second, and the median and 99th
 * percentile of the time to an answer in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "../kv_common.h"

#define KEYS 4096
/* Of a request and of a reply. */
#define MOST_BYTES 160
#define CONNECTIONS 512
#define AT_ONCE 256
#define TIMES (1 << 22)

struct connection {
	int socket;
	size_t got;
	double sent;
};

static struct connection all[CONNECTIONS];
static double times[TIMES];
/* A request, whose key begins four bytes behind its beginning, and a reply's first word. */
static char request[MOST_BYTES] = "get 000000\r\n", *reply = "VALUE ";
static int request_bytes = 12, reply_bytes = 155;

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;

	return difference < 0 ? -1 : difference > 0;
}

static void ask(struct connection *to, int at_once)
{
	static unsigned int random = 1;
	static char text[AT_ONCE * MOST_BYTES];

	for (int at = 0; at < at_once; at++) {
		char *one = text + at * request_bytes;

		memcpy(one, request, request_bytes);
		random = random * 1103515245 + 12345;
		for (unsigned int digit = 9, rest = (random >> 16) % KEYS; digit > 3; digit--, rest /= 10)
			one[digit] = '0' + rest % 10;
	}
	to->got = 0;
	to->sent = now();
	if (write(to->socket, text, at_once * request_bytes) != at_once * request_bytes)
		fail("write");
}

static void set_values(void)
{
	memcpy(request, "set 000000 0 0 128\r\n", 20);
	memset(request + 20, 'v', 128);
	memcpy(request + 148, "\r\n", 2);
	reply = "STORED\r\n";
	request_bytes = 150;
	reply_bytes = 8;
}

int main(int count, char **words)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	int poll = epoll_create1(0), connections, at_once, one = 1;
	static char text[1 << 16];
	struct epoll_event events[CONNECTIONS];
	double begun, until;
	size_t answers = 0;

	if (count != 7 || inet_pton(AF_INET, words[1], &server.sin_addr) != 1)
		return 2;
	server.sin_port = htons(atoi(words[2]));
	if (!strcmp(words[3], "set"))
		set_values();
	connections = atoi(words[4]);
	at_once = atoi(words[5]);
	if (connections < 1 || connections > CONNECTIONS || at_once < 1 || at_once > AT_ONCE)
		return 2;
	for (int at = 0; at < connections; at++) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = &all[at] };

		all[at].socket = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(all[at].socket, (void *)&server, sizeof(server)))
			fail("connect");
		setsockopt(all[at].socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		epoll_ctl(poll, EPOLL_CTL_ADD, all[at].socket, &event);
	}
	/* Until the server has all sockets in its map. */
	usleep(200000);
	begun = now();
	until = begun + atof(words[6]) * 1e6;
	for (int at = 0; at < connections; at++)
		ask(&all[at], at_once);
	while (now() < until && answers + CONNECTIONS < TIMES) {
		int ready = epoll_wait(poll, events, CONNECTIONS, 5000);

		if (ready <= 0)
			fail("no answer in five seconds");
		for (int at = 0; at < ready; at++) {
			struct connection *from = events[at].data.ptr;
			ssize_t got = read(from->socket, text, sizeof(text));

			if (got <= 0 || (!from->got && memcmp(text, reply, got < 6 ? got : 6)))
				fail("a wrong answer");
			from->got += got;
			if (from->got < (size_t)at_once * reply_bytes)
				continue;
			times[answers++] = now() - from->sent;
			ask(from, at_once);
		}
	}
	if (!answers)
		fail("no answers");
	begun = now() - begun;
	qsort(times, answers, sizeof(*times), compare);
	printf("%zu %.0f %.1f %.1f\n", answers * at_once, answers * at_once / begun * 1e6, times[answers / 2],
	       times[answers * 99 / 100]);
	return 0;
}
