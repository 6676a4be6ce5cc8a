/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model.h"

/* PyTorch's Embedding has a row that does not train (padding_idx). ONNX's Gather cannot say so, but PyTorch's newer
 * exporter writes the call that it translated into the node's metadata, where the number can be read.
 *
 * Returns: (transfer full): name of an initializer → row, as GINT_TO_POINTER (row + 1) */
GHashTable *ortrain_padding_rows_find (OrtrainModel *model);
