/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "fake-cuda.h"

/* What the emulated runtime tells about its copies, and asks before a stream goes on. */
void fake_cuda_note_copy (const OrtrainFakeCudaCopy &copy);
void fake_cuda_wait_while_held (void);
