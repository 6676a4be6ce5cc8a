/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "exact-search.h"
#include "small-graphs.h"

/* The results of the search for a budget, compared with the best way that exists. */

#define COMPARED_MAX 12

typedef struct
{
  guint64 budget;      /* of the arena */
  guint64 bytes;       /* of the arena that was found */
  guint64 live_bytes;  /* the most that is live in it at once: the other bytes are gaps between places */
  double work;         /* of all steps */
  gboolean met;        /* or else no smaller budget is, and this is the one that needs least */
  guint64 least_bytes; /* with no more work */
  double least_work;   /* with no more bytes */
  double least_within; /* with no more than the budget */
  gboolean known;      /* the search for the best way came to its end */
} ComparedPoint;

typedef struct
{
  guint64 whole; /* bytes of the arena without a budget */
  double work;
  guint n_steps, n_contents;
  guint n_points;
  ComparedPoint points[COMPARED_MAX];
} Comparison;

/* FALSE: the graph is too large, or too small to be of use. */
gboolean comparison_make (Comparison *self, const SmallGraph *graph, guint max_tried, gboolean verbose);
