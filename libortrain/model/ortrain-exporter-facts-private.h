/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "ortrain-onnx.pb-c.h"

/* What an exporter knew and ONNX has no place for. */

/* PyTorch's embeddings may have a padding row, which is looked up like any other and never trained; ONNX's Gather has no
 * such thing. The newer exporter writes the call it came from into the metadata of the node; the older one drops it, and
 * then the model families whose embeddings always have one are known by the names of their weights. Sets the attribute
 * "padding_index" of the Gather, which its gradient heeds, and returns a note for people; NULL when there is nothing. */
char *ortrain_exporter_facts_padding (const Ortrain__Ox__ModelProto *model, const Ortrain__Ox__NodeProto *proto,
                                      OrtrainNode *node);
