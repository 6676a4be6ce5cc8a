/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

#define ORTRAIN_ORDER_MAX_PHASES 3
#define ORTRAIN_ORDER_MAX_OVER 2

/* The order of execution as a problem of its own: tasks that make and read blocks of memory. Tasks are numbered in a
 * valid order, in which all tasks of a phase stand before those of the next, and described in that order. */
typedef struct
{
  gsize workspace;
  guint phase;
  gboolean prompt; /* runs as soon as it can, whatever the given order says */
  guint first_make, n_makes;
  guint first_read, n_reads;
  guint first_successor, n_successors; /* set by ortrain_order_problem_solve () */
} OrtrainTask;

typedef struct
{
  gsize bytes;                          /* 0: takes no memory of the step */
  gboolean kept;                        /* lives to the end in any case */
  guint32 over[ORTRAIN_ORDER_MAX_OVER]; /* as large, and read by its maker, which may write over them */
  guint n_over;
  guint32 last_maker, last_reader; /* task + 1 that was added last: tasks are described one after the other */
} OrtrainTaskBlock;

typedef struct
{
  guint32 from, to;
} OrtrainTaskEdge;

typedef struct
{
  OrtrainTask *tasks;
  guint n_tasks;
  OrtrainTaskBlock *blocks;
  guint n_blocks;
  /* The entries of one task are adjacent. */
  GArray *makes;       /* of guint32: blocks that exist from there on */
  GArray *reads;       /* of guint32, each once */
  guint32 *successors; /* may hold one twice; or NULL */
  GArray *edges;       /* of OrtrainTaskEdge, in the order in which they were added */
} OrtrainOrderProblem;

OrtrainOrderProblem *ortrain_order_problem_new (guint n_tasks, guint n_blocks);
void ortrain_order_problem_free (OrtrainOrderProblem *self);
void ortrain_order_problem_add_edge (OrtrainOrderProblem *self, guint from, guint to);
void ortrain_order_problem_add_make (OrtrainOrderProblem *self, guint task, guint block);
void ortrain_order_problem_add_read (OrtrainOrderProblem *self, guint task, guint block);

/* order: [n_tasks], filled with the best order found: the given one, with prompt tasks moved up, unless another has a
 * lower peak. Deterministic. */
gsize ortrain_order_problem_solve (OrtrainOrderProblem *self, guint32 *order);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainOrderProblem, ortrain_order_problem_free)
