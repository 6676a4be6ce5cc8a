/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Helpers with which upgrades write a node out: `write` functions insert nodes in the newest form before it, and return
 * output 0. */
typedef struct
{
  OrtrainGraph *graph;
  OrtrainNode *node;
} OrtrainWriter;

/* Whether the node has the operands that its row needs. An upgrade that replaces the node must check it, since nothing
 * later can. */
gboolean ortrain_write_check (const OrtrainWriter *self, GError **error);
/* Operands at the end that are NULL are left out; attributes: taken, may be NULL. */
OrtrainValue *ortrain_write (const OrtrainWriter *self, const char *op_type, OrtrainValue *const *operands, guint n,
                             OrtrainAttributes *attributes);
OrtrainValue *ortrain_write1 (const OrtrainWriter *self, const char *op_type, OrtrainValue *a);
OrtrainValue *ortrain_write2 (const OrtrainWriter *self, const char *op_type, OrtrainValue *a, OrtrainValue *b);
OrtrainValue *ortrain_write_ints (const OrtrainWriter *self, const gint64 *values, gsize n);
#define ORTRAIN_WRITE_INTS(self, ...)                                                                                  \
  ortrain_write_ints (self, (const gint64[]){ __VA_ARGS__ }, sizeof ((const gint64[]){ __VA_ARGS__ }) / sizeof (gint64))
OrtrainAttributes *ortrain_write_attribute (const char *name, gint64 value);
OrtrainValue *ortrain_write_concat (const OrtrainWriter *self, OrtrainValue *a, OrtrainValue *b, gint64 axis);
/* x[…, from:to:step] along one axis. */
OrtrainValue *ortrain_write_slice (const OrtrainWriter *self, OrtrainValue *x, gint64 axis, gint64 from, gint64 to,
                                   gint64 step);
/* Dimension `axis` of a value, [1]. */
OrtrainValue *ortrain_write_dim (const OrtrainWriter *self, OrtrainValue *value, gint64 axis);
/* Replaces the output of the node by this value, and removes the node. */
gboolean ortrain_write_finish (const OrtrainWriter *self, OrtrainValue *result);
gboolean ortrain_write_refuse (const OrtrainWriter *self, GError **error, const char *why);
