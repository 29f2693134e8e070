/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stands in for the kernel's net/ipv6.h, of which the samples use nothing that kernel.h lacks. */
#pragma once
#include <linux/ipv6.h>
