/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor.h"

/* The attributes of a node: a short list of named values, in file order. Operators and kernels both read it. A copy
 * shares the list until one of the two changes. */
typedef enum
{
  ORTRAIN_ATTRIBUTE_FLOAT = 1, /* the numbers are ONNX's AttributeProto.AttributeType */
  ORTRAIN_ATTRIBUTE_INT = 2,
  ORTRAIN_ATTRIBUTE_STRING = 3,
  ORTRAIN_ATTRIBUTE_TENSOR = 4,
  ORTRAIN_ATTRIBUTE_GRAPH = 5,
  ORTRAIN_ATTRIBUTE_FLOATS = 6,
  ORTRAIN_ATTRIBUTE_INTS = 7,
  ORTRAIN_ATTRIBUTE_STRINGS = 8,
  ORTRAIN_ATTRIBUTE_TENSORS = 9,
  ORTRAIN_ATTRIBUTE_GRAPHS = 10,
} OrtrainAttributeKind;

typedef struct
{
  char *name;
  OrtrainAttributeKind kind;
  gsize n; /* number of elements of the plural kinds, 1 otherwise */
  union
  {
    double f; /* kept as double: attributes of float64 models written by our own passes lose nothing */
    gint64 i;
    char *s; /* NUL-terminated; bytes after an embedded NUL are refused at load */
    OrtrainTensor *t;
    GObject *g; /* an OrtrainGraph; opaque in this room */
    float *floats;
    gint64 *ints;
    char **strings;
    OrtrainTensor **tensors;
    GObject **graphs;
  } v;
} OrtrainAttribute;

typedef struct _OrtrainAttributes OrtrainAttributes;

OrtrainAttributes *ortrain_attributes_new (void);
OrtrainAttributes *ortrain_attributes_copy (const OrtrainAttributes *self);
/* Instead of its own. source may be NULL: none. */
void ortrain_attributes_assign (OrtrainAttributes *self, const OrtrainAttributes *source);
void ortrain_attributes_free (OrtrainAttributes *self);
guint ortrain_attributes_get_n (const OrtrainAttributes *self);
const OrtrainAttribute *ortrain_attributes_get_nth (const OrtrainAttributes *self, guint index);
const OrtrainAttribute *ortrain_attributes_lookup (const OrtrainAttributes *self, const char *name); /* NULL: absent */
gboolean ortrain_attributes_has (const OrtrainAttributes *self, const char *name);
void ortrain_attributes_remove (OrtrainAttributes *self, const char *name);

/* The value, or the fallback when the attribute is absent or of another kind. self may be NULL. */
gint64 ortrain_attributes_get_int (const OrtrainAttributes *self, const char *name, gint64 fallback);
double ortrain_attributes_get_float (const OrtrainAttributes *self, const char *name, double fallback);
const char *ortrain_attributes_get_string (const OrtrainAttributes *self, const char *name, const char *fallback);
const gint64 *ortrain_attributes_get_ints (const OrtrainAttributes *self, const char *name, gsize *n); /* NULL */
const float *ortrain_attributes_get_floats (const OrtrainAttributes *self, const char *name, gsize *n);
OrtrainTensor *ortrain_attributes_get_tensor (const OrtrainAttributes *self, const char *name); /* transfer none */
GObject *ortrain_attributes_get_graph (const OrtrainAttributes *self, const char *name);        /* transfer none */

void ortrain_attributes_set_int (OrtrainAttributes *self, const char *name, gint64 value);
void ortrain_attributes_set_float (OrtrainAttributes *self, const char *name, double value);
void ortrain_attributes_set_string (OrtrainAttributes *self, const char *name, const char *value);
void ortrain_attributes_set_strings (OrtrainAttributes *self, const char *name, const char *const *values, gsize n);
void ortrain_attributes_set_ints (OrtrainAttributes *self, const char *name, const gint64 *values, gsize n);
void ortrain_attributes_set_floats (OrtrainAttributes *self, const char *name, const float *values, gsize n);
void ortrain_attributes_set_tensor (OrtrainAttributes *self, const char *name, OrtrainTensor *value);
void ortrain_attributes_set_tensors (OrtrainAttributes *self, const char *name, OrtrainTensor *const *values, gsize n);
void ortrain_attributes_set_graph (OrtrainAttributes *self, const char *name, GObject *value);
void ortrain_attributes_set_graphs (OrtrainAttributes *self, const char *name, GObject *const *values, gsize n);

gboolean ortrain_attributes_equal (const OrtrainAttributes *a, const OrtrainAttributes *b); /* graphs by pointer */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainAttributes, ortrain_attributes_free)
