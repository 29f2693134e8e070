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

#ifdef KERNEL_TYPES_FROM_BTF
#include "vmlinux.h"
#else
#include <stddef.h>
#include <stdbool.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
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
#ifndef KERNEL_TYPES_FROM_BTF
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#endif
#define SOL_SOCKET 1
#define SOL_TCP 6
#define SOL_IPV6 41
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define IFNAMSIZ 16

/* Bytes of a task's name. */
#ifndef KERNEL_TYPES_FROM_BTF
#define TASK_COMM_LEN 16
#define MINORBITS 20
#define PF_KTHREAD 0x00200000
#endif

/* Link-layer values that vmlinux.h lacks, macros having no place in BTF. */
#ifdef KERNEL_TYPES_FROM_BTF
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#endif

/* Fields of an IPv4 header's fragment word. */
#define IP_MF 0x2000
#define IP_OFFSET 0x1FFF
