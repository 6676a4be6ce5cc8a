/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "onnx/ortrain-proto-tensor-private.h"

/* The form in which the file holds the contents of an initializer value. */
typedef enum
{
  ORTRAIN_ORIGIN_INITIALIZER,
  ORTRAIN_ORIGIN_SPARSE,    /* a sparse initializer, as a dense tensor */
  ORTRAIN_ORIGIN_CONSTANT,  /* the attribute of a Constant node */
  ORTRAIN_ORIGIN_IDENTITY,  /* an Identity node of `of`: an exporter merged tensors with equal values */
  ORTRAIN_ORIGIN_SEPARATED, /* an Identity node of `of`, an initializer that export wrote for this value alone */
  ORTRAIN_ORIGIN_MERGED, /* stored as `of`, which nodes read instead, as an exporter merged equal values; or left out,
                            as zeros */
} OrtrainOriginKind;

/* Where an exporter merged initializers that differ after training, each Identity node gets an initializer of its
 * own, named after its output. */
#define ORTRAIN_SEPARATED_SUFFIX ".value"

typedef struct
{
  OrtrainOriginKind kind;
  char *of;
} OrtrainOrigin;

/* Builds the graph of a parsed model, in the operator set of the file, functions inlined. */
typedef struct
{
  const Ortrain__Ox__ModelProto *proto;
  OrtrainProtoTensors *tensors;
  OrtrainModelLimits *limits;
  gboolean ignores_declarations; /* of computed values, and which sizes of inputs are the same */

  /* results */
  OrtrainGraph *graph;
  GPtrArray *notes;    /* of char *, for people */
  GHashTable *origins; /* name → OrtrainOrigin, of the outermost graph's initializers that are none in the file */
  GError *unsupported; /* the first thing that the file may have, but this library has not; or NULL */
} OrtrainGraphReader;

gboolean ortrain_graph_reader_read (OrtrainGraphReader *self, GError **error);
void ortrain_graph_reader_clear (OrtrainGraphReader *self);
/* The origin of an initializer of the graph; NULL for any other value, and for NULL. */
const OrtrainOrigin *ortrain_graph_reader_find_origin (const OrtrainGraphReader *self, const OrtrainValue *value);
/* The version that the file imports of a domain; 0 if it does not. */
gint64 ortrain_graph_reader_get_opset (const Ortrain__Ox__ModelProto *proto, const char *domain);
