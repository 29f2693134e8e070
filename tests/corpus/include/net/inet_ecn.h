/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stands in for the kernel's net/inet_ecn.h: the two ECN bits of the traffic class (RFC 3168, section 5). */
#pragma once

enum {
	INET_ECN_NOT_ECT = 0,
	INET_ECN_ECT_1 = 1,
	INET_ECN_ECT_0 = 2,
	INET_ECN_CE = 3,
	INET_ECN_MASK = 3,
};
