/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "exact-problem.h"

/* All ways to run a step, the best of them: nodes in any order that their operands allow, those that may run again any
 * number of times, contents dropped at any time. */

typedef enum
{
  EXACT_FOUND,
  EXACT_NONE,     /* nothing fits */
  EXACT_TOO_LONG, /* not known */
} ExactAnswer;

typedef struct
{
  ExactAnswer answer;
  double work;     /* beyond that of the problem */
  guint64 peak;    /* bytes that the way takes */
  guint64 next;    /* of EXACT_NONE: with less than this as a limit, nothing fits either */
  guint n_visited; /* states */
  guint n_runs;
  guint8 runs[4 * EXACT_MAX]; /* in their order */
} ExactWay;

/* The least work with at most so many live bytes; most: a way that needs more work is not accepted. */
void exact_find_least_work (const ExactProblem *self, guint64 limit, double most, guint max_tried, ExactWay *way);
/* The least bytes with at most so much work, below a limit with which there is a way. */
void exact_find_least_bytes (const ExactProblem *self, guint64 limit, double most, guint max_tried, ExactWay *way);
