/* SPDX-License-Identifier: MIT */
/* What the files of this board share: its symbols of assembly and linker. */
#ifndef VIRT_H
#define VIRT_H

#include <stdint.h>

#include "layout.h"

extern unsigned char board_image_begin[], board_image_end[];
extern unsigned char board_stack_guard[];
extern uint64_t board_root_low[], board_root_high[], board_level2[];
extern const unsigned char board_probe_begin[], board_probe_end[];
extern const unsigned char board_probe_failed[];

#endif
