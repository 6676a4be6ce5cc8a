/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A dimension: a number, or a polynomial of named symbols with integer coefficients, in canonical form, so that equal
 * expressions are equal pointers. Expressions live in a space, which a graph and its clones share; a dim is a plain
 * value that nobody frees. Divisions, maxima and so on that do not come out even are symbols made of their operands. */
typedef struct _OrtrainDimSpace OrtrainDimSpace; /* reference counted; may be used by several threads */
typedef struct _OrtrainDimExpr OrtrainDimExpr;

typedef struct
{
  gint64 value;               /* the number, if expr is NULL */
  const OrtrainDimExpr *expr; /* else the expression, owned by the space */
} OrtrainDim;

OrtrainDimSpace *ortrain_dim_space_new (void);
OrtrainDimSpace *ortrain_dim_space_ref (OrtrainDimSpace *self);
void ortrain_dim_space_unref (OrtrainDimSpace *self);

static inline OrtrainDim
ortrain_dim_int (gint64 value)
{
  return (OrtrainDim){ value, NULL };
}

static inline gboolean
ortrain_dim_is_int (OrtrainDim dim)
{
  return dim.expr == NULL;
}

/* Provably equal. */
static inline gboolean
ortrain_dim_equal (OrtrainDim a, OrtrainDim b)
{
  return a.expr == b.expr && (a.expr != NULL || a.value == b.value);
}

OrtrainDim ortrain_dim_symbol (OrtrainDimSpace *space, const char *name);
OrtrainDim ortrain_dim_unknown (OrtrainDimSpace *space); /* a new symbol that equals nothing else: "?7" */
gboolean ortrain_dim_is_symbol (OrtrainDim dim, const char **name);

/* Overflow gives an unknown, never a wrong number. */
OrtrainDim ortrain_dim_add (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_sub (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_mul (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_floor_div (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_ceil_div (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_mod (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_min (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
OrtrainDim ortrain_dim_max (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b);
/* The result of two operands of an element-wise operator: equal, or one of them 1, or maximum when not known. FALSE
 * when they can never fit. */
gboolean ortrain_dim_broadcast (OrtrainDimSpace *space, OrtrainDim a, OrtrainDim b, OrtrainDim *result);

/* lookup returns FALSE for a symbol without a value. */
typedef gboolean (*OrtrainDimLookupFunc) (const char *symbol, gint64 *value, gpointer user_data);
gboolean ortrain_dim_evaluate (OrtrainDim dim, OrtrainDimLookupFunc lookup, gpointer user_data, gint64 *value);

char *ortrain_dim_to_string (
    OrtrainDim dim); /* "20480*batch*(seq_len-1)" is printed expanded: "20480*batch*seq_len - 20480*batch" */
char *ortrain_dims_to_string (const OrtrainDim *dims, gint rank); /* "[batch, 1, 28, 28]"; "?" for rank -1 */

/* For people: quotients as ceil(height/32). Longer expressions are collected in `legend` (of char *, may be NULL), and
 * the text has $1, $2 and so on in their place. */
#define ORTRAIN_DIM_READABLE_LENGTH 40
char *ortrain_dim_to_readable (OrtrainDim dim);
char *ortrain_dims_to_readable (const OrtrainDim *dims, gint rank, GPtrArray *legend);
