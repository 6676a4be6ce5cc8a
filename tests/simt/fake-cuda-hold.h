/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "fake-cuda.h"

/* Calls of the emulated runtime: one notes each copy, the other is made before a stream goes on. */
void fake_cuda_note_copy (const OrtrainFakeCudaCopy &copy);
/* has_graphs: of the stream */
void fake_cuda_wait_while_held (bool has_graphs);
