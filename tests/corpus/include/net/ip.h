/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stands in for the kernel's net/ip.h: what an IPv4 header says about fragments (RFC 791, section 3.1). */
#pragma once
#include <linux/ip.h>

#define IP_MF 0x2000     /* more fragments follow */
#define IP_OFFSET 0x1FFF /* where this fragment belongs, in units of 8 bytes */

static inline bool ip_is_fragment(const struct iphdr *header)
{
	return header->frag_off & htons(IP_MF | IP_OFFSET);
}
