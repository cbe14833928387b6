/* SPDX-License-Identifier: MIT */
/*
 * The one thing of the host's port that needs storage: the index of the
 * calling thread's context.  It begins as 0, which is right for a program with
 * one thread; others set it before their first call.  The port reads it as an
 * initial-exec variable: one load at a fixed offset from the thread's pointer.
 */
#include "arch.h"

_Thread_local unsigned fallow_host_context;
