/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan/ortrain-plan-tables-private.h"

/* State that the parts of the verifier share: the tables of the plan, and the results so far. */

#define ORTRAIN_NO_BUFFER G_MAXUINT32

typedef struct
{
  guint64 low, high;
  gboolean known;
} OrtrainPlanContent;

/* For each stream, the last of its steps that has run before a step begins; all before it have, too. -1: no step. */
typedef struct
{
  gint32 until[ORTRAIN_N_STREAMS];
} OrtrainPlanBefore;

typedef struct
{
  OrtrainMemoryPlan *plan;
  const OrtrainPlanValue *values;
  const OrtrainPlanStep *steps;
  const guint32 *operands;
  const guint32 *waits;
  guint n_values, n_steps, n_operands, n_waits;
  gsize arena_bytes, host_arena_bytes;
  OrtrainPlanBefore *before;   /* [n_steps] */
  OrtrainPlanContent *meaning; /* [n_values]: the content of a value, by the graph */
  OrtrainPlanContent *content; /* [n_values], of roots: the content of the place now, if any */
  GHashTable *step_of;         /* node → step + 1 */
  GTree *filled[2]; /* arena, host arena: offset → root + 1, of roots that hold something: none touches another */
  guint32 *reader;  /* [n_values], of roots: the last input, + 1, of the step at hand that lies there; 0: none */
  guint32 *writer;  /* [n_values], of roots: the same of its outputs */
  GArray *readers;  /* of guint32: of an input, the one before it that lies there too, + 1 */
} OrtrainPlanVerifier;

G_GNUC_PRINTF (2, 3)
gboolean ortrain_plan_verifier_refuse (GError **error, const char *format, ...);
/* 0, 1: which arena a value lies in; -1: none. */
int ortrain_plan_verifier_arena_of (const OrtrainPlanValue *value);
/* Compares pointers that are offsets, for a tree. */
int ortrain_plan_verifier_compare_offsets (gconstpointer a, gconstpointer b, gpointer data);

/* The order of the steps on all streams: what must have run before each, and that steps that touch the same memory, one
 * of them writing, run in the order of the table. Fills `before`. */
gboolean ortrain_plan_verifier_check_order (OrtrainPlanVerifier *self, GError **error);
/* Steps that run as one need nothing of each other. */
gboolean ortrain_plan_verifier_check_joined (const OrtrainPlanVerifier *self, GError **error);
/* Lifetimes, from the steps alone, against the table; no two of them meet in time and place; the sums. */
gboolean ortrain_plan_verifier_check_lifetimes (const OrtrainPlanVerifier *self, GError **error);

/* Shares no code with the planner: lifetimes from the steps alone, no two live values
 * overlap, everything inside its region, every operand made before it is read, in-place and views only as allowed. */
gboolean ortrain_plan_verify (OrtrainMemoryPlan *plan, GError **error);
