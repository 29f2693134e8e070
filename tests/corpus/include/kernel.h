/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Kernel names for programs that were written to be compiled inside the kernel tree.
 *
 * The older files of samples/bpf include kernel-internal headers, which need a configured kernel tree of hundreds of
 * megabytes. What they take from there is little: short names of integer types, a few constants and byte-order
 * macros. This header is included before each of them (`-include kernel.h`) and the rest comes from the user-space
 * API headers, or from vmlinux.h when KERNEL_TYPES_FROM_BTF is defined.
 */
#pragma once
#include <linux/errno.h>

#ifdef KERNEL_TYPES_FROM_BTF
#include "vmlinux.h"
#else
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <linux/udp.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

/* Named in parameter lists before anything declares them. */
struct bpf_map;
struct bpf_perf_event_value;
#endif

#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef __force
#define __force
#endif
#define __maybe_unused __attribute__((unused))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define __packed __attribute__((packed))
#define __stringify_1(text...) #text
#define __stringify(text...) __stringify_1(text)
#define div64_u64(dividend, divisor) ((u64)(dividend) / (u64)(divisor))
#define min(left, right) ((left) < (right) ? (left) : (right))
#define max(left, right) ((left) > (right) ? (left) : (right))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Byte order: everything here is compiled for little-endian BPF. */
#define htons(value) ((__be16)__builtin_bswap16(value))
#define ntohs(value) __builtin_bswap16((__u16)(value))
#define htonl(value) ((__be32)__builtin_bswap32(value))
#define ntohl(value) __builtin_bswap32((__u32)(value))
#define cpu_to_be16(value) htons(value)
#define cpu_to_be32(value) htonl(value)

/* Values of Linux's socket interface. */
#define AF_INET 2
#define AF_INET6 10
#define PF_INET AF_INET
#define PF_INET6 AF_INET6
#define SOL_IP 0
#define SOL_SOCKET 1
#define SOL_TCP 6
#define SOL_IPV6 41
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define IFNAMSIZ 16

#ifdef KERNEL_TYPES_FROM_BTF
/* Macros, which have no place in BTF. */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define PERF_MAX_STACK_DEPTH 127 /* frames */
#define memcpy __builtin_memcpy
#define memset __builtin_memset
#else
#define TASK_COMM_LEN 16 /* bytes */
#endif
