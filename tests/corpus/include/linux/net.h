/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The user-space header of this name, and the socket types that only the kernel's own has. */
#pragma once
#include_next <linux/net.h>

#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
