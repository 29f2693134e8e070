/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * server MODE PORT: answers `get` of 4,096 keys over TCP with one thread, until SIGTERM. Then it prints the microseconds of a CPU that
 * it took, how often it was woken, and how many requests the programs have served.
 *
 *	user	read, write
 *	passed	the same, of sockets in a map whose programs pass everything on
 *	kernel	requests that come alone are answered by the programs
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../kv_common.h"

#define KEYS 4096
#define REQUEST_BYTES 12
#define REPLY_BYTES 155
#define EVENTS 256

static char replies[KEYS][160];
static int sockets = -1, variables = -1;
static volatile sig_atomic_t is_over;

static void end(int signal)
{
	is_over = signal;
}

static void load(unsigned int is_serving)
{
	struct bpf_object *object = bpf_object__open("slice.bpf.o");
	struct bpf_map *constants;
	int items, verdict, reply;
	size_t bytes;

	constants = object ? bpf_object__find_map_by_name(object, ".rodata") : 0;
	if (!constants)
		fail("opening");
	*(unsigned int *)bpf_map__initial_value(constants, &bytes) = is_serving;
	if (bpf_object__load(object))
		fail("loading");
	sockets = bpf_object__find_map_fd_by_name(object, "sockets");
	variables = bpf_object__find_map_fd_by_name(object, ".bss");
	items = bpf_object__find_map_fd_by_name(object, "items");
	for (unsigned int key = 0; key < KEYS; key++)
		if (bpf_map_update_elem(items, &key, replies[key], 0))
			fail("items");
	verdict = bpf_program__fd(bpf_object__find_program_by_name(object, "verdict"));
	reply = bpf_program__fd(bpf_object__find_program_by_name(object, "reply"));
	if (bpf_prog_attach(verdict, sockets, BPF_SK_SKB_VERDICT, 0) ||
	    bpf_prog_attach(reply, sockets, BPF_SK_MSG_VERDICT, 0))
		fail("attaching");
}

static int listening(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 512))
		fail("listening");
	return listener;
}

static void welcome(int poll, int listener)
{
	struct sockaddr_in peer;
	socklen_t bytes = sizeof(peer);
	int one = 1, socket = accept4(listener, (void *)&peer, &bytes, SOCK_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = socket };
	/* As programs see it: in network order, in the upper half. */
	__u32 port = htonl(ntohs(peer.sin_port));
	__u64 value = socket;

	if (socket < 0)
		return;
	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event))
		fail("epoll_ctl");
	if (sockets >= 0 && bpf_map_update_elem(sockets, &port, &value, 0))
		fail("sockets");
}

static void serve(int socket)
{
	static char input[1 << 16], output[(1 << 16) / REQUEST_BYTES * REPLY_BYTES];
	ssize_t got = read(socket, input, sizeof(input));
	size_t made = 0;

	if (!got)
		close(socket);
	for (ssize_t at = 0; at + REQUEST_BYTES <= got; at += REQUEST_BYTES, made += REPLY_BYTES)
		memcpy(output + made, replies[atoi(input + at + 4) % KEYS], REPLY_BYTES);
	if (made && write(socket, output, made) != (ssize_t)made)
		fail("write");
}

int main(int count, char **words)
{
	struct epoll_event event = { .events = EPOLLIN }, events[EVENTS];
	int poll = epoll_create1(0), listener;
	struct sigaction action = { .sa_handler = end };
	struct rusage usage;
	__u64 served = 0;
	__u32 first = 0;

	if (count != 3)
		return 2;
	for (int key = 0; key < KEYS; key++)
		snprintf(replies[key], sizeof(replies[key]), "VALUE %06d 0 128\r\n%0128d\r\nEND\r\n", key, key);
	if (strcmp(words[1], "user"))
		load(!strcmp(words[1], "kernel"));
	sigaction(SIGTERM, &action, 0);
	listener = event.data.fd = listening(atoi(words[2]));
	epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
	while (!is_over) {
		int ready = epoll_wait(poll, events, EVENTS, 1000);

		for (int at = 0; at < ready; at++) {
			if (events[at].data.fd == listener)
				welcome(poll, listener);
			else
				serve(events[at].data.fd);
		}
	}
	getrusage(RUSAGE_SELF, &usage);
	if (variables >= 0)
		bpf_map_lookup_elem(variables, &first, &served);
	printf("%ld %ld %llu\n",
	       (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec,
	       usage.ru_nvcsw, (unsigned long long)served);
	return 0;
}
