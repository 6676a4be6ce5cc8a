/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "fake-cuda.h"

/* What the emulated runtime tells about its copies, and asks before a stream goes on. */
void fake_cuda_note_copy (const OrtrainFakeCudaCopy &copy);
/* has_graphs: of the stream */
void fake_cuda_wait_while_held (bool has_graphs);
