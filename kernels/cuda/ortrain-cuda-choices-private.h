/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* The choices of NVIDIA's libraries, as the disk cache has them: whole numbers of 8 bytes, little-endian. key: all that
 * the choice depends on. */

/* NULL: not known. Transfer full, [n]. */
gint64 *ortrain_cuda_choices_read (const char *kind, const char *key, gsize *n);
void ortrain_cuda_choices_write (const char *kind, const char *key, const gint64 *numbers, gsize n);

/* Whether several algorithms are to be run, and the fastest one kept: with the search for it, but not with
 * `deterministic`, as another run may find another one the fastest. */
gboolean ortrain_cuda_choices_are_timed (const OrtrainCudaProvider *provider);
/* Which of several algorithms was the fastest, in this process or in an earlier one, or -1. names: [n_algorithms ·
 * n_names], numbers that tell each algorithm from others. */
gint ortrain_cuda_choices_read_fastest (const OrtrainCudaProvider *provider, const char *kind, const char *key,
                                        const gint64 *names, guint n_names, guint n_algorithms);
void ortrain_cuda_choices_write_fastest (const char *kind, const char *key, const gint64 *names, guint n_names,
                                         guint place);
/* Milliseconds of the fastest of a few runs, after one to warm up; infinite where one fails. The host waits: not while
 * a graph is made. */
double ortrain_cuda_choices_time (OrtrainStream *stream, gboolean (*run) (gpointer data), gpointer data);

G_END_DECLS
