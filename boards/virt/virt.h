/* SPDX-License-Identifier: MIT */
/* What the files of this board share: its symbols of assembly and linker. */
#ifndef VIRT_H
#define VIRT_H

#include <stdint.h>

#include "layout.h"

/* At the lowest word of the stack, where nothing should ever get. */
#define VIRT_STACK_MARK 0x7374616b656e6421

extern unsigned char board_image_begin[], board_image_end[];
extern uint64_t board_stack_begin[];
extern uint64_t board_root_low[], board_root_high[], board_level2[];
extern const unsigned char board_probe_begin[], board_probe_end[];
extern const unsigned char board_probe_failed[];

#endif
