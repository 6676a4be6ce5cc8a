/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda_runtime_api.h"
#include "simt.h"
