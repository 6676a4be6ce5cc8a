/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-glib/json-glib.h>

/* The parts of a plan that a comparison needs, from the JSON that `ortrain plan --json` prints. */

#define PLAN_SUMMARY_N_PERSISTENT 4
extern const char *const plan_summary_persistent[PLAN_SUMMARY_N_PERSISTENT]; /* categories */

/* Blocks of one name: of a value, or of the workspace of a node. */
typedef struct
{
  char *name, *category; /* of the first of them */
  guint64 at_peak;       /* bytes that are live there */
  guint64 bytes;         /* of all */
} PlanBlocks;

typedef struct
{
  guint64 peak, arena, lower_bound, persistent, by_category[PLAN_SUMMARY_N_PERSISTENT];
  guint64 kept; /* bytes of activations: computed in the forward pass, read in the backward pass */
  guint n_kept;
  guint n_steps, n_recomputed;
  double flops, recomputed_flops, bytes_moved, milliseconds;
  guint peak_step;
  guint64 peak_live;
  char *peak_node, *peak_operator, *peak_phase; /* or NULL: a packing without steps */
  char *gradients_kept;                         /* why; or NULL */
  GHashTable *blocks;                           /* of PlanBlocks, by kind and name */
} PlanSummary;

/* name: for messages. */
PlanSummary *plan_summary_new (JsonNode *plan, const char *name, GError **error);
void plan_summary_free (PlanSummary *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlanSummary, plan_summary_free)
