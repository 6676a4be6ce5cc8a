/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain-cpu-tile-private.h"

/* A program: element-wise instructions over the tiles of an output shape. Values of a program are numbered; a value is
 * an operand of the node, a constant of one element, or the result of an instruction. Instructions read and write
 * memory of the node's operands directly where they can, and tile registers in the workspace otherwise. */
typedef struct _OrtrainTileProgram OrtrainTileProgram;
typedef struct _OrtrainTileBuilder OrtrainTileBuilder;

#define ORTRAIN_TILE_NONE G_MAXUINT

/* NULL and PLAN_ERROR_NO_KERNEL when the operands' shapes do not fit the outputs'. */
OrtrainTileBuilder *ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_new) (const OrtrainKernelSetup *setup, GError **error);
void ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_free) (OrtrainTileBuilder *self);
guint ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_input) (OrtrainTileBuilder *self, guint index);
guint ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_constant) (OrtrainTileBuilder *self, OrtrainDType dtype,
                                                          gconstpointer element);
OrtrainDType ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_get_dtype) (const OrtrainTileBuilder *self, guint value);
/* One element throughout a tile. */
gboolean ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_is_scalar) (const OrtrainTileBuilder *self, guint value);
/* The element, when it is known before the first run; else NULL. */
gconstpointer ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_get_constant) (const OrtrainTileBuilder *self, guint value);
/* A value that is no scalar: itself, or a tile filled with it. */
guint ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_spread) (OrtrainTileBuilder *self, guint value);
/* Appends an instruction; a, b, c may be NONE. Scalars are the caller's business: it chose the loop. */
guint ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_emit) (OrtrainTileBuilder *self, OrtrainTileFunc func, guint cost,
                                                      OrtrainDType dtype, guint a, guint b, guint c,
                                                      const OrtrainTileParam *param);
/* Inputs of one type that are one element for each row of the space, side by side: [rows, n] for a loop that walks
 * through rows (OrtrainTileEnv). NONE where they are not, or rows are too short for that. */
guint ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_rows) (OrtrainTileBuilder *self, const guint *values, guint n);
void ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_output) (OrtrainTileBuilder *self, guint index, guint value);
/* Fills setup's answers: constants, workspace, in-place bits, costs. */
gboolean ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_finish) (OrtrainTileBuilder *self, OrtrainKernelSetup *setup,
                                                           GError **error);

#define ortrain_tile_builder_new ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_new)
#define ortrain_tile_builder_free ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_free)
#define ortrain_tile_builder_input ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_input)
#define ortrain_tile_builder_constant ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_constant)
#define ortrain_tile_builder_get_dtype ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_get_dtype)
#define ortrain_tile_builder_is_scalar ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_is_scalar)
#define ortrain_tile_builder_get_constant ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_get_constant)
#define ortrain_tile_builder_spread ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_spread)
#define ortrain_tile_builder_emit ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_emit)
#define ortrain_tile_builder_rows ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_rows)
#define ortrain_tile_builder_output ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_output)
#define ortrain_tile_builder_finish ORTRAIN_CPU_SYMBOL (ortrain_tile_builder_finish)
