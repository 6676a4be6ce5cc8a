/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-macros.h"
#include "core/ortrain-version-functions.h"
#include "core/ortrain-version.h"
#include "graph/ortrain-graph.h"
#include "ortrain-enum-types.h"
#include "tensor/ortrain-storage.h"
#include "tensor/ortrain-tensor-dict.h"
#include "tensor/ortrain-tensor.h"
