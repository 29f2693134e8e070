/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stands in for the kernel's net/ip.h, of which the samples use nothing that kernel.h lacks. */
#pragma once
#include <linux/if_ether.h>
#include <linux/ip.h>
