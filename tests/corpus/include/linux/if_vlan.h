/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The user-space header of this name, and the 802.1Q header that only the kernel's own has. */
#pragma once
#include_next <linux/if_vlan.h>
#include <linux/types.h>

struct vlan_hdr {
	__be16 h_vlan_TCI;
	__be16 h_vlan_encapsulated_proto;
};
