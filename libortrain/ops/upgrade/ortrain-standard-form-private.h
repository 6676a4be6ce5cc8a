/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* An upgraded graph in a form that a file may have: our own operators that upgrades wrote become operators of ONNX
 * again, branches read values of the graphs around them by name, and the operator set is the first one, from 21 on,
 * that has all nodes in their form. */
gboolean ortrain_ops_to_standard_form (OrtrainGraph *graph, GError **error);
